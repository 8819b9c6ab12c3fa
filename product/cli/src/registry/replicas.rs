//! `meridian replicas`

use std::collections::BTreeMap;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use meridian_base::assign::{Serving, assign};
use meridian_protocol::admin::{AddReplica, EngineName, RoleName, TransferName};
use meridian_protocol::legs::{self, Protocol};
use meridian_protocol::registry::{Replica, Seen, Wanted};
use serde::{Deserialize, Serialize};

use super::ask::Control;
use super::table::ListForm;
use super::{forced, pair};

/// List and change the replicas of a fleet
#[derive(clap::Args)]
pub(crate) struct Replicas {
    #[command(flatten)]
    control: Control,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the replicas, the gateways that serve them, and their state
    List(ListForm),
    /// List when the replicas were up and down, and why, since the control plane started
    Intervals(ListForm),
    /// Add a replica
    Add(Box<Add>),
    /// Drain a replica: it finishes its requests and gets no new ones
    Drain(Name),
    /// Stop draining a replica: it gets new requests again
    Undrain(Name),
    /// Remove a replica; its running requests may fail
    Remove(Remove),
}

#[derive(clap::Args)]
struct Name {
    /// Name of the replica
    name: String,
}

#[derive(clap::Args)]
struct Remove {
    /// Name of the replica
    name: String,
    /// Delete its record too; gateways whose own files list the replica add it at their next start
    #[arg(long)]
    forget: bool,
}

#[derive(clap::Args)]
struct Add {
    /// Name, unique in the fleet
    name: String,
    /// Region of the replica
    #[arg(long)]
    region: String,
    /// Allow a region that is not known yet
    #[arg(long)]
    force: bool,
    /// Base address, http://host:port or https://host:port
    #[arg(long)]
    url: String,
    /// Address for the gateways of another region, if different; repeat for more
    #[arg(long, value_name = "REGION=URL", value_parser = pair)]
    from: Vec<(String, String)>,
    /// Name of the credentials for it, in the section `credentials` of the gateways' files
    #[arg(long, value_name = "NAME")]
    credentials: Option<String>,
    /// Engine of the replica
    #[arg(long, default_value = "auto", value_parser = engines())]
    engine: EngineName,
    /// Model that it serves [default: its /v1/models]; repeat for more
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// KV cache size in tokens, if the engine does not report it
    #[arg(long)]
    kv_tokens: Option<u64>,
    /// Most requests at once, if the engine does not report it
    #[arg(long)]
    slots: Option<u32>,
    /// Relative capacity
    #[arg(long, default_value_t = 1)]
    weight: u32,
    /// Its part of a request
    #[arg(long, default_value = "both", value_parser = roles())]
    role: RoleName,
    /// How it hands over KV [default: its engine's usual way]
    #[arg(long, value_parser = transfers())]
    transfer: Option<TransferName>,
    /// Bootstrap server of a prefill replica [default: its host, and the protocol's usual port]
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// Label for residency rules; repeat for more
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
}

/// Every engine by its name.
fn engines() -> impl TypedValueParser<Value = EngineName> {
    let value = |engine: EngineName| match engine {
        EngineName::Auto => PossibleValue::new(engine.name()).help("recognized by its answers"),
        EngineName::Is(spec) => PossibleValue::new(spec.name).help(spec.summary),
    };
    PossibleValuesParser::new(EngineName::all().map(value)).try_map(|name| name.parse())
}

/// Every role by its name.
fn roles() -> impl TypedValueParser<Value = RoleName> {
    PossibleValuesParser::new(RoleName::all()).try_map(|name| name.parse())
}

/// Every transfer protocol by its name.
fn transfers() -> impl TypedValueParser<Value = TransferName> {
    let value = |spec: &&Protocol| PossibleValue::new(spec.name).help(spec.summary);
    PossibleValuesParser::new(legs::ALL.iter().map(value)).try_map(|name| name.parse())
}

/// A replica in the control plane's list.
#[derive(Serialize, Deserialize)]
struct Listed {
    name: String,
    region: String,
    spec: AddReplica,
    #[serde(default)]
    wanted: Wanted,
    #[serde(default)]
    seen: BTreeMap<String, Seen>,
}

impl Replicas {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let at = |name: &str| format!("/admin/replicas/{name}");
        match &self.command {
            Command::List(form) => self.list(form),
            Command::Intervals(form) => {
                let read = self.control.intervals()?;
                form.intervals(&read.replicas, read.now_ms)
            }
            Command::Add(add) => {
                self.control.put(&forced(at(&add.name), add.force), &add.replica())?;
                println!("replica {} is added to region {}", add.name, add.region);
                Ok(())
            }
            Command::Drain(Name { name }) => {
                self.control.change("POST", &format!("{}/drain", at(name)))?;
                println!("replica {name} drains");
                Ok(())
            }
            Command::Undrain(Name { name }) => {
                self.control.change("POST", &format!("{}/undrain", at(name)))?;
                println!("replica {name} serves again");
                Ok(())
            }
            Command::Remove(Remove { name, forget }) => {
                self.control.change("DELETE", &at(name))?;
                if *forget {
                    self.control.change("DELETE", &format!("{}?forget=true", at(name)))?;
                }
                println!("replica {name} is {}", if *forget { "forgotten" } else { "removed" });
                Ok(())
            }
        }
    }

    fn list(&self, form: &ListForm) -> anyhow::Result<()> {
        let all: Vec<Listed> = self.control.get("/admin/replicas")?;
        let served = assign(&self.control.snapshot()?.membership());
        let row = |one: &Listed| {
            let seen: Vec<_> = one.seen.iter().map(|(g, s)| format!("{} {g}", s.state)).collect();
            let by = served.get(&one.name).map(by).unwrap_or_default();
            let state = one.wanted.name().to_owned();
            let role = one.spec.role.name().to_owned();
            let (name, region, url) = (&one.name, &one.region, &one.spec.url);
            vec![name.clone(), region.clone(), role, state, url.clone(), by, seen.join(", ")]
        };
        let heads = ["NAME", "REGION", "ROLE", "WANTED", "URL", "SERVED BY", "SEEN"];
        form.print(&all, &heads, || all.iter().map(row).collect())
    }
}

/// The gateways that serve a replica.
fn by(serving: &Serving<String>) -> String {
    match serving {
        Serving::Own(gateways) => gateways.join(", "),
        Serving::Adopted { by, .. } => format!("{by} (adopted)"),
        Serving::NoGateway => "none".to_owned(),
    }
}

impl Add {
    fn replica(&self) -> Replica {
        Replica {
            region: self.region.clone(),
            spec: AddReplica {
                from: self.from.iter().cloned().collect(),
                credentials: self.credentials.clone(),
                engine: self.engine,
                models: self.models.clone(),
                kv_tokens: self.kv_tokens,
                slots: self.slots,
                weight: self.weight,
                role: self.role,
                transfer: self.transfer,
                bootstrap: self.bootstrap.clone(),
                // The region and the labels are in the record, not in the spec.
                ..AddReplica::at(&self.url)
            },
            labels: self.labels.iter().cloned().collect(),
            wanted: Wanted::Up,
        }
    }
}
