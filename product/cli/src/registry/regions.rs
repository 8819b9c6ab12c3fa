//! `meridian regions`

use anyhow::{Context, bail};
use meridian_protocol::registry::{NameRow, Names, Region, Status};

use super::ask::Control;
use super::table::ListForm;
use super::{forced, pair};

/// List and change the regions of a fleet
#[derive(clap::Args)]
pub(crate) struct Regions {
    #[command(flatten)]
    control: Control,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the regions, with gateways, replicas, and the replicas that the load needs
    List(ListForm),
    /// Show who answers which name of the fleet's zone, and why
    Names(NamesOf),
    /// Set the round-trip times of a region, and the regions that may adopt its replicas
    Set(Set),
    /// Drain a region: its new requests go to other regions
    Drain(Drain),
    /// Stop draining a region
    Undrain(Name),
    /// Delete the record of a region without replicas and gateways
    Forget(Name),
}

#[derive(clap::Args)]
struct NamesOf {
    /// Show the answer for the client with this address
    #[arg(long, value_name = "ADDRESS")]
    client: Option<std::net::IpAddr>,
    #[command(flatten)]
    form: ListForm,
}

#[derive(clap::Args)]
struct Name {
    /// Name of the region
    name: String,
}

#[derive(clap::Args)]
struct Drain {
    /// Name of the region
    name: String,
    /// Allow a region that is not known yet; it then starts drained
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
struct Set {
    /// Name of the region, created if it does not exist
    name: String,
    /// Round-trip time to another region in ms; repeat for more
    #[arg(long = "rtt", value_name = "REGION=MS", value_parser = pair)]
    rtts: Vec<(String, String)>,
    /// Regions whose gateways may adopt its replicas, separated by commas; or `any`, or `none`
    #[arg(long, value_name = "REGIONS")]
    adopters: Option<String>,
    /// Allow adopters that are not known yet
    #[arg(long)]
    force: bool,
    /// Label for residency rules; repeat for more
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
}

impl Regions {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let at = |name: &str| format!("/admin/regions/{name}");
        match &self.command {
            Command::List(form) => self.list(form),
            Command::Names(of) => self.names(of),
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

    fn list(&self, form: &ListForm) -> anyhow::Result<()> {
        let status: Status = self.control.get("/admin/status")?;
        let row = |(name, one): (&String, &meridian_protocol::registry::RegionStatus)| {
            let needed = one.needed.map_or_else(|| "?".to_owned(), |n| n.to_string());
            let replicas = format!("{} of {}", one.up, one.replicas);
            let advice = one.advice();
            let held = one.held.to_string();
            let (name, wanted) = (name.clone(), one.wanted.clone());
            vec![name, wanted, one.gateways.join(", "), replicas, needed, held, advice]
        };
        let heads = ["NAME", "WANTED", "GATEWAYS", "UP", "NEEDED", "HELD", "ADVICE"];
        form.print(&status.regions, &heads, || status.regions.iter().map(row).collect())
    }

    fn names(&self, NamesOf { client, form }: &NamesOf) -> anyhow::Result<()> {
        let query = client.map(|client| format!("?client={client}")).unwrap_or_default();
        let names: Names = self.control.get(&format!("/admin/names{query}"))?;
        let row = |one: &NameRow| {
            let addresses: Vec<String> = one.addresses.iter().map(ToString::to_string).collect();
            let regions = one.regions.join(", ");
            let (name, kind, client) = (one.name.clone(), one.kind.clone(), one.client.clone());
            vec![name, kind, client, regions, addresses.join(" "), one.why.clone()]
        };
        let heads = ["NAME", "TYPE", "ASKED BY", "ANSWER", "ADDRESSES", "WHY"];
        form.print(&names.rows, &heads, || names.rows.iter().map(row).collect())
    }

    /// The region's record with the changes; fields that are not named stay.
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
