//! `meridian regions`

use anyhow::{Context, bail};
use meridian_wire::registry::{Region, Status};

use super::ask::Control;
use super::{forced, pair, table};

/// Lists and changes the regions of a fleet
#[derive(clap::Args)]
pub(crate) struct Regions {
    #[command(flatten)]
    control: Control,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Lists them, with their gateways, their replicas, and how many replicas their load asks for
    List,
    /// Says how far a region is from others, and who may adopt its replicas
    Set(Set),
    /// Sends every new request of a region elsewhere
    Drain(Drain),
    /// Lets a drained region serve again
    Undrain(Name),
    /// Takes away the record of a region that has neither replicas nor gateways
    Forget(Name),
}

#[derive(clap::Args)]
struct Name {
    /// The region's name
    name: String,
}

#[derive(clap::Args)]
struct Drain {
    /// The region's name
    name: String,
    /// Drains a region that is not known yet, so that it begins drained
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
struct Set {
    /// The region's name; made if it is not there
    name: String,
    /// Round trip to another region in ms; may be given again
    #[arg(long = "rtt", value_name = "REGION=MS", value_parser = pair)]
    rtts: Vec<(String, String)>,
    /// Regions whose gateways may adopt its replicas, with commas between; `any` or `none`
    #[arg(long, value_name = "REGIONS")]
    adopters: Option<String>,
    /// Takes adopters that are not known yet, too
    #[arg(long)]
    force: bool,
    /// A fact that rules refer to; may be given again
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
}

impl Regions {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let at = |name: &str| format!("/admin/regions/{name}");
        match &self.command {
            Command::List => self.list(),
            Command::Set(set) => {
                self.control.put(&forced(at(&set.name), set.force), &self.changed(set)?)?;
                println!("region {} is set", set.name);
                Ok(())
            }
            Command::Drain(Drain { name, force }) => {
                self.control.change("POST", &forced(format!("{}/drain", at(name)), *force))?;
                println!("region {name} drains");
                Ok(())
            }
            Command::Undrain(Name { name }) => {
                self.control.change("POST", &format!("{}/undrain", at(name)))?;
                println!("region {name} serves again");
                Ok(())
            }
            Command::Forget(Name { name }) => {
                self.control.change("DELETE", &at(name))?;
                println!("region {name} is forgotten");
                Ok(())
            }
        }
    }

    fn list(&self) -> anyhow::Result<()> {
        let status: Status = self.control.get("/admin/status")?;
        let row = |(name, one): (String, meridian_wire::registry::RegionStatus)| {
            let needed = one.needed.map_or_else(|| "?".to_owned(), |n| n.to_string());
            let replicas = format!("{} of {}", one.up, one.replicas);
            vec![name, one.wanted, one.gateways.join(", "), replicas, needed, one.held.to_string()]
        };
        let heads = ["NAME", "WANTED", "GATEWAYS", "UP", "NEEDED", "HELD"];
        table::print(&heads, status.regions.into_iter().map(row).collect());
        Ok(())
    }

    /// The region's record with what is to change; what is not named stays.
    fn changed(&self, set: &Set) -> anyhow::Result<Region> {
        let mut region = self.control.snapshot()?.regions.remove(&set.name).unwrap_or_default();
        for (to, ms) in &set.rtts {
            let ms: f64 = ms
                .parse()
                .with_context(|| format!("--rtt: `{to}={ms}` has no number; write it as eu=92"))?;
            region.rtt_ms.insert(to.clone(), ms);
        }
        region.labels.extend(set.labels.iter().cloned());
        region.adopters = match set.adopters.as_deref() {
            None => region.adopters,
            Some("any") => None,
            Some("none") => Some(Vec::new()),
            Some("") => bail!("--adopters: is empty; name regions, or use any or none"),
            Some(names) => Some(names.split(',').map(|name| name.trim().to_owned()).collect()),
        };
        Ok(region)
    }
}
