//! Our own format: units of servers under their access switches, and the core. lab/docs/planner.md has
//! it field by field.
//!
//! Reading fails at the first error of format (syntax, an unknown key, a wrong unit) with its line;
//! checking reports all other errors at once.

mod joined;

use meridian_engine::{GPUS, Gpu};
use serde::{Deserialize, Serialize};

use crate::import::MeasuredSpec;
use crate::problem::{Problem, Problems, one_of};
use crate::topology::{Access, Aggregation, Card, Core, Server, Topology};
use crate::units::{Rate, Size, Span};

/// The schema version that this program reads.
pub const VERSION: u32 = 1;
/// Most GPUs of a topology.
pub const MOST_GPUS: u32 = 65_536;
/// Most of any item that a file counts.
const MOST: u32 = 65_536;
/// Longest name of servers: a host's label has 63 characters, with the number.
const MOST_NAME: usize = 56;
/// Most GPUs of a server.
const MOST_IN_SERVER: u32 = 64;

/// A topology file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// Schema version: 1.
    pub version: u32,
    /// Its name, in reports.
    #[serde(default = "unnamed")]
    pub name: String,
    /// Groups of servers.
    pub units: Vec<UnitSpec>,
    /// The core that joins access switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreSpec>,
    /// Links whose measured rate differs from the one above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<MeasuredSpec>,
}

/// Servers under access switches of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// How many of them.
    #[serde(default = "one")]
    pub count: u32,
    /// The access switches of each.
    #[serde(default)]
    pub access: AccessSpec,
    /// The servers of each.
    pub servers: Vec<ServerSpec>,
}

/// Access switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSpec {
    /// How many in a unit; a server's card `i` goes to switch `i` modulo this.
    #[serde(default = "one")]
    pub count: u32,
    /// Their in-network aggregation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<AggregationSpec>,
}

impl Default for AccessSpec {
    fn default() -> AccessSpec {
        AccessSpec { count: 1, aggregation: None }
    }
}

/// In-network aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregationSpec {
    /// Time of an empty all-reduce through it.
    #[serde(default = "collnet")]
    pub latency: Span,
    /// The rate of its slots per port.
    pub rate: Rate,
}

/// Equal servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// How many of them in each unit.
    #[serde(default = "one")]
    pub count: u32,
    /// The prefix of their names; the GPU's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Host names of the first of them, in a unit with a count of 1; the others are numbered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The GPU's short name.
    pub gpu: String,
    /// GPUs of each.
    pub gpus: u32,
    /// Memory of a GPU, if it is not the kind's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// NVLink of a GPU in each direction; without it GPUs communicate over PCIe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<Rate>,
    /// PCIe of a GPU in each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<Rate>,
    /// Between NUMA nodes in each direction.
    #[serde(default = "socket")]
    pub socket: Rate,
    /// The NUMA node of each GPU; all of one by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<u8>,
    /// Network cards.
    #[serde(default)]
    pub cards: u32,
    /// A card's rate in each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_rate: Option<Rate>,
    /// The NUMA node of each card; spread over the GPUs' nodes by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub card_numa: Vec<u8>,
}

/// The core that joins access switches evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSpec {
    /// Core switches.
    pub switches: u32,
    /// Rate of an access switch's cards over the rate of its uplinks: 1 is full bisection.
    #[serde(default = "full")]
    pub oversubscription: f64,
    /// Their in-network aggregation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<AggregationSpec>,
}

fn unnamed() -> String {
    "topology".to_owned()
}
fn one() -> u32 {
    1
}
fn full() -> f64 {
    1.0
}
/// NCCL's CollNet over commodity switches.
fn collnet() -> Span {
    Span(30e-6)
}
/// One direction of the link between two sockets, as transfers see it.
pub(crate) fn socket() -> Rate {
    Rate(40e9)
}

impl TopologySpec {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// See [`Problems`]: one for a text that is not a topology, otherwise everything at once.
    pub fn read(yaml: &str) -> Result<TopologySpec, Problems> {
        let spec: TopologySpec = serde_saphyr::from_str(yaml).map_err(|error| {
            Problems::one("topology", error, "lab/docs/planner.md has every field of the file")
        })?;
        Problems(spec.problems()).or(spec)
    }

    /// The file of it.
    ///
    /// # Panics
    /// Never: every field can be written.
    #[must_use]
    pub fn print(&self) -> String {
        serde_saphyr::to_string(self).expect("plain fields can be written as YAML")
    }

    /// All problems of the specification.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Problems(Vec::new());
        found.unless(self.version == VERSION, "version", self.version, format!("use {VERSION}"));
        found.unless(!self.units.is_empty(), "units", "none", "give at least one with servers");
        let mut gpus = 0_u64;
        let mut servers = 0_u64;
        for (at, unit) in self.units.iter().enumerate() {
            let field = format!("units[{at}]");
            count(&mut found, &format!("{field}.count"), unit.count);
            count(&mut found, &format!("{field}.access.count"), unit.access.count);
            unit.access.check(&mut found, &format!("{field}.access.aggregation"));
            let none = !unit.servers.is_empty();
            found.unless(none, format!("{field}.servers"), "none", "give at least one");
            for (nth, server) in unit.servers.iter().enumerate() {
                server.check(&mut found, &format!("{field}.servers[{nth}]"));
                let many = u64::from(unit.count) * u64::from(server.count);
                servers += many;
                gpus += many * u64::from(server.gpus);
            }
        }
        let most = format!("use {MOST_GPUS} or fewer");
        found.unless(gpus <= u64::from(MOST_GPUS), "units", format!("{gpus} GPUs"), most);
        self.check_core(&mut found);
        self.check_joined(&mut found, servers);
        self.check_hosts(&mut found);
        // Links exist in a topology that can be built.
        if !self.measured.is_empty() && found.0.is_empty() {
            crate::import::measured::check(&self.measured, &self.laid_out(), &mut found);
        }
        found.0
    }

    fn check_core(&self, found: &mut Problems) {
        let Some(core) = &self.core else { return };
        count(found, "core.switches", core.switches);
        let fits = (1.0..=64.0).contains(&core.oversubscription);
        found.unless(fits, "core.oversubscription", core.oversubscription, "use 1 to 64");
        check_aggregation(core.aggregation.as_ref(), found, "core.aggregation");
    }

    /// The topology for a specification without problems.
    ///
    /// # Errors
    ///
    /// See [`Self::problems`].
    pub fn build(&self) -> Result<Topology, Problems> {
        Problems(self.problems()).or(())?;
        Ok(crate::import::measured::applied(&self.measured, self.laid_out()))
    }

    /// The topology without measured rates, for a specification without problems.
    fn laid_out(&self) -> Topology {
        let (mut servers, mut access) = (Vec::new(), Vec::new());
        let mut names = std::collections::BTreeMap::<String, u32>::new();
        let mut unit = 0;
        for spec in &self.units {
            for _ in 0..spec.count {
                let first = access.len() as u32;
                let mut below = vec![0.0; spec.access.count as usize];
                for server in &spec.servers {
                    for own in 0..server.count {
                        let name = server.hosts.get(own as usize).cloned();
                        let name = name.unwrap_or_else(|| {
                            let stem = server.name.as_ref().unwrap_or(&server.gpu);
                            let nth = names.entry(stem.clone()).or_default();
                            *nth += 1;
                            format!("{stem}-{}", *nth - 1)
                        });
                        let placed = server.place(name, unit, first, &spec.access);
                        for card in &placed.cards {
                            below[(card.access - first) as usize] += card.rate;
                        }
                        servers.push(placed);
                    }
                }
                let over = self.core.map_or(f64::INFINITY, |core| core.oversubscription);
                let aggregation = spec.access.aggregation.map(AggregationSpec::build);
                access.extend(below.into_iter().map(|rate| Access {
                    unit,
                    uplink: rate / over,
                    aggregation,
                }));
                unit += 1;
            }
        }
        let core = self.core.map(|core| Core {
            switches: core.switches,
            aggregation: core.aggregation.map(AggregationSpec::build),
        });
        Topology::new(self.name.clone(), servers, access, core)
    }
}

fn count(found: &mut Problems, field: &str, value: u32) {
    found.unless((1..=MOST).contains(&value), field, value, format!("use 1 to {MOST}"));
}

fn check_aggregation(spec: Option<&AggregationSpec>, found: &mut Problems, field: &str) {
    if let Some(spec) = spec {
        let remedy = "a switch that lets nothing through adds nothing; leave aggregation out";
        found.unless(spec.rate.0 > 0.0, format!("{field}.rate"), spec.rate, remedy);
    }
}

impl AccessSpec {
    fn check(&self, found: &mut Problems, field: &str) {
        check_aggregation(self.aggregation.as_ref(), found, field);
    }
}

impl AggregationSpec {
    fn build(self) -> Aggregation {
        Aggregation { latency: self.latency.0, rate: self.rate.0 }
    }
}

/// Whether the name with a number after it can be a host's, which scripts and pods use as it is.
fn is_host(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let starts = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    starts && name.len() <= MOST_NAME && name.chars().all(plain)
}

impl ServerSpec {
    fn check(&self, found: &mut Problems, field: &str) {
        count(found, &format!("{field}.count"), self.count);
        let name = self.name.as_deref().unwrap_or(&self.gpu);
        let remedy = format!(
            "use the host's name: letters, digits, `-` and `.`, at most {MOST_NAME}; a number follows it"
        );
        let is_named = self.name.is_none() || is_host(name);
        found.unless(is_named, format!("{field}.name"), name, remedy);
        let known: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
        let remedy = format!("use {}", one_of(&self.gpu, &known));
        found.unless(Gpu::named(&self.gpu).is_some(), format!("{field}.gpu"), &self.gpu, remedy);
        let gpus = (1..=MOST_IN_SERVER).contains(&self.gpus);
        let remedy = format!("use 1 to {MOST_IN_SERVER}");
        found.unless(gpus, format!("{field}.gpus"), self.gpus, remedy);
        let cards = self.cards <= MOST_IN_SERVER;
        let remedy = format!("use {MOST_IN_SERVER} or fewer");
        found.unless(cards, format!("{field}.cards"), self.cards, remedy);
        let rates = [
            ("nvlink", self.nvlink),
            ("pcie", self.pcie),
            ("socket", Some(self.socket)),
            ("card_rate", self.card_rate.filter(|_| self.cards > 0)),
        ];
        for (name, rate) in rates {
            let fits = rate.is_none_or(|rate| rate.0 >= 1e6 && rate.0 <= 1e15);
            let remedy = "nothing gets through; use 1MB/s or more, or leave the field out";
            found.unless(fits, format!("{field}.{name}"), rate.unwrap_or_default(), remedy);
        }
        let named = self.cards == 0 || self.card_rate.is_some();
        found.unless(named, format!("{field}.card_rate"), "none", "give it, as in 100Gb/s");
        let memory = self.memory.is_none_or(|size| size.0 >= 4e9 && size.0 <= 1e13);
        let value = self.memory.unwrap_or_default();
        found.unless(memory, format!("{field}.memory"), value, "use 4GB to 10000GB");
        let lists = [
            ("numa", &self.numa, self.gpus, "GPU"),
            ("card_numa", &self.card_numa, self.cards, "card"),
        ];
        for (name, list, wanted, what) in lists {
            let fits = list.is_empty() || list.len() == wanted as usize;
            let value = format!("{} nodes", list.len());
            let remedy = format!("give one for each {what}, {wanted} in all");
            found.unless(fits, format!("{field}.{name}"), value, remedy);
        }
    }

    fn place(&self, name: String, unit: u32, first: u32, access: &AccessSpec) -> Server {
        let mut kind = Gpu::named(&self.gpu).expect("checked before it is built");
        kind.memory = self.memory.map_or(kind.memory, |size| size.0);
        let mut server = Server::unplaced(name, unit, kind, self.gpus);
        if !self.numa.is_empty() {
            server.numa.clone_from(&self.numa);
        }
        server.nvlink = self.nvlink.map(|rate| rate.0);
        server.pcie = self.pcie.map_or(usual_pcie(&kind), |rate| rate.0);
        server.socket = self.socket.0;
        let rate = self.card_rate.unwrap_or_default().0;
        let dealt = |nth: u32| server.numa[(nth * self.gpus / self.cards) as usize];
        server.cards = (0..self.cards)
            .map(|nth| Card {
                rate,
                access: first + nth % access.count,
                numa: self.card_numa.get(nth as usize).copied().unwrap_or_else(|| dealt(nth)),
            })
            .collect();
        server
    }
}

/// Sixteen lanes of the generation that the GPU has.
fn usual_pcie(kind: &Gpu) -> f64 {
    match kind.name {
        "v100" => 16e9,
        "h100" | "h200" | "rtx-pro-6000" => 64e9,
        _ => 32e9,
    }
}

#[cfg(test)]
mod tests;
