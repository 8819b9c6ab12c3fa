//! The file format of an experiment: `experiments/NAME.yaml`.
//!
//! It is strict, with units in the values, like the gateway's configuration: an unknown key is an
//! error, and a duration has its unit. Regions, fleets, workloads and systems are defined in the
//! file or referenced by name from the catalogue (`experiments/common.yaml`), so two experiments
//! that reference the same workload run the same one.
//!
//! Nothing is resolved here: [`super::plan`] resolves names and reports errors.

mod capacity;
mod compare;
mod draw;
mod duels;
mod fleets;
mod flow;
mod flow_load;
mod flow_testbed;
mod load;
mod outage;
mod pools;
mod published;
mod reference;
mod replicas;
mod trace;

use std::collections::BTreeMap;

use meridian_config::{AdmissionMode, Held, Probe};
use meridian_protocol::policy::Policy;
use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

pub use capacity::{Capacity, CapacityLoad};
pub use compare::{Exception, Half, Sweep, Tuned};
pub use draw::{CapacityRuns, Chance, Draw, Range, Ranges};
pub use duels::{
    DuelColumn, DuelKey, DuelTable, DuelTarget, Duels, Fact, Judged, Pairs, Pick, Unanswered,
};
pub use fleets::{Exchanges, FleetCase, FleetClaim, FleetMetric, Fleets, Spread};
pub use flow::{Case, Compared, FlowClaim, FlowSweep, FlowSystem};
pub use flow_load::{FlowControl, FlowGrid, FlowLoad};
pub use flow_testbed::{FlowTestbed, Gated, TestbedLoad, TestbedModel, TestbedSlo, TestbedSystem};
pub use load::{Bursts, Load, Workload};
pub use outage::{Lost, Outage};
pub use pools::Pool;
pub use published::{
    Bound, Column, Label, Published, PublishedTable, Quantity, RowName, Show, TableSpec, Value,
    Word,
};
pub use reference::{Ref, read, read_file};
pub use replicas::{Degraded, Fleet, Group, Speed};
pub use trace::Trace;

/// One experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its subject, in one line.
    pub title: String,
    /// The result it reproduces: paper, figure, section.
    pub reproduces: String,
    /// The world that gives the regions, fleets and workloads which the file leaves out.
    pub world: Option<KnownWorld>,
    /// The regions of clients and replicas; absent in an experiment without a simulation.
    pub regions: Option<Ref<Regions>>,
    /// The replicas.
    #[serde(default)]
    pub fleets: Vec<Ref<Fleet>>,
    /// The workloads.
    #[serde(default)]
    pub workloads: Vec<Ref<Workload>>,
    /// Shares of its capacity at which each workload with a `capacity` runs, above 0; once at 1
    /// without a list.
    #[serde(default)]
    pub levels: Vec<f64>,
    /// The systems to compare.
    #[serde(default)]
    pub systems: Vec<Ref<System>>,
    /// The measured part of a run.
    #[serde(default)]
    pub measure: Measure,
    /// Seeds to run unless the command says otherwise.
    #[serde(default = "five")]
    pub seeds: u32,
    /// The first seed. Results of seeds not used for tuning are more meaningful.
    #[serde(default = "one_u64")]
    pub first_seed: u64,
    /// The small variant, for smoke tests.
    #[serde(default)]
    pub quick: Smaller,
    /// The scale on real processes, if supported.
    pub live: Option<Smaller>,
    /// Metrics that the tables show.
    #[serde(default)]
    pub show: Vec<String>,
    /// Published figures to compare with.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Published tables, from which figures are computed that have no value of their own.
    #[serde(default)]
    pub published_tables: Vec<PublishedTable>,
    /// Quantities beside the metrics of a run: how they are written, or derived.
    #[serde(default)]
    pub quantities: Vec<Quantity>,
    /// Tables beside the usual ones, before them.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
    /// One system against the others, cell by cell.
    pub duels: Option<Duels>,
    /// Whether a run is a fixed amount of work: its window is the time until its last answer.
    #[serde(default)]
    pub until_done: bool,
    /// Fleets and workloads that run on real processes only.
    #[serde(default)]
    pub live_only: Vec<String>,
    /// Plots.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// Parameters of policies that are swept.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// Ranges from which workloads are drawn.
    pub draw: Option<Draw>,
    /// Causes for results behind others.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
    /// Clusters under flow policies.
    pub flow: Option<FlowSweep>,
    /// Clusters under flow policies, over the use of the cards.
    pub flow_load: Option<FlowLoad>,
    /// A few hosts under flow policies, simulated and on real sockets.
    pub flow_testbed: Option<FlowTestbed>,
    /// Planned fleets under HeroServe's systems.
    pub fleet: Option<Fleets>,
    /// Collectives only, on such fleets.
    pub exchanges: Option<Exchanges>,
    /// Least fleets for loads and objectives.
    pub capacity: Option<Capacity>,
    /// Numbers for the custom code of an experiment.
    #[serde(default)]
    pub knobs: BTreeMap<String, f64>,
    /// Notes for the reader, including why ours differs from the paper.
    #[serde(default)]
    pub notes: String,
}

/// A file of `experiments/` with regions, fleets and workloads for several experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownWorld {
    /// `experiments/comparison.yaml`: published and recorded workloads.
    Comparison,
    /// `experiments/hard.yaml`: workloads that are hard on routing policies.
    Hard,
}

/// A set of regions and the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// The set's name.
    pub name: String,
    /// The regions in the order that all lists by region follow.
    pub regions: Vec<Place>,
    /// Round-trip times in ms, square; the diagonal is within a region.
    pub rtt_ms: Vec<Vec<f64>>,
    /// Coefficient of variation of a one-way delay.
    #[serde(default)]
    pub jitter: f64,
    /// Share of messages lost.
    #[serde(default)]
    pub loss: f64,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its continent.
    pub continent: String,
}

/// A routing system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its name in tables.
    pub name: String,
    /// The policy, as in a gateway's configuration.
    pub policy: Policy,
    /// The admission mode; the policy's own by default.
    pub admission: Option<AdmissionMode>,
    /// How gateways are arranged.
    pub topology: Topology,
    /// Gateways in each region that has any.
    #[serde(default = "one")]
    pub gateways: u32,
    /// How the gateways of a region tell each other of their requests; they do not by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<Siblings>,
    /// Pace of probes.
    #[serde(default)]
    pub probe: Probe,
    /// The held queue. By default nothing is rejected for its length: the published systems queue
    /// requests without a limit.
    #[serde(default = "unbounded")]
    pub held: Held,
    /// Pace of digests between peers.
    #[serde(default)]
    pub digests: Digests,
    /// Whether every replica serves whole requests, whatever the fleet's pools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// How records of requests travel between gateways of a region.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Siblings {
    /// The time that each takes.
    pub delay: Span,
    /// The share that is lost.
    #[serde(default)]
    pub loss: f64,
}

/// How gateways are arranged; see `meridian_sim::Topology`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// A gateway a region, which forward to each other.
    TwoLayer,
    /// One gateway for all, in the region named; `first` is the first of the list.
    Central(String),
    /// Every region by itself.
    RegionLocal,
    /// Every gateway sees all replicas.
    Flat,
    /// Local until this share of utilisation, then the nearest.
    Waterfall(f32),
    /// As waterfall, but within the continent.
    Continent(f32),
    /// Clairvoyant.
    Oracle(Objective),
}

/// An oracle's objective, with its one weight; see `meridian_sim::Objective`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Least mean TTFT.
    Ttft(f64),
    /// Most throughput.
    Throughput(f64),
}

/// Pace of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Digests {
    /// At least this often.
    pub every: Span,
    /// On a change, at most this often.
    pub on_change: Option<Span>,
}

impl Default for Digests {
    /// SkyWalker's 100 ms (section 4.1).
    fn default() -> Digests {
        Digests { every: Span::millis(100), on_change: None }
    }
}

/// The measured part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Requests sent before this do not count.
    pub warmup: Span,
    /// Requests sent within this do.
    pub window: Span,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure { warmup: Span::secs(60), window: Span::secs(300) }
    }
}

/// A small variant: the parts that it keeps, and how much smaller the rest is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Smaller {
    /// The measured part.
    pub measure: Measure,
    /// Clients, rates and replicas are multiplied by this; positive counts stay at least 1.
    pub share: f64,
    /// Fleets that stay; all when empty.
    pub fleets: Vec<String>,
    /// Workloads that stay; all when empty.
    pub workloads: Vec<String>,
    /// Systems that stay; all when empty.
    pub systems: Vec<String>,
    /// Knobs with other values.
    pub knobs: BTreeMap<String, f64>,
}

impl Default for Smaller {
    fn default() -> Smaller {
        Smaller {
            measure: Measure { warmup: Span::secs(5), window: Span::secs(20) },
            share: 0.25,
            fleets: Vec::new(),
            workloads: Vec::new(),
            systems: Vec::new(),
            knobs: BTreeMap::new(),
        }
    }
}

/// A plot of a metric, one for each workload and fleet unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its kind.
    pub kind: Kind,
    /// A metric (`throughput_rps`), or a distribution (`ttft_ms`).
    pub metric: String,
    /// Logarithmic axis of values.
    #[serde(default)]
    pub log: bool,
    /// The workloads of a plot over their clients; all when empty.
    #[serde(default)]
    pub workloads: Vec<String>,
}

/// A kind of plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A bar a system, with its interval.
    Bars,
    /// A box a system: P10, P25, P50, P75, P90 and the mean, as in SkyWalker's figures.
    Boxes,
    /// The cumulative distribution, a line a system.
    Cdf,
    /// A line a system over the replicas of the fleets, with intervals.
    Replicas,
    /// A line a system over the clients of the workloads, with intervals: a plot a fleet.
    Clients,
    /// A line a replica over time (`kv_used`, `outstanding`, `running`), one plot a system.
    Timeline,
}

fn one() -> u32 {
    1
}

fn one_u64() -> u64 {
    1
}

fn five() -> u32 {
    5
}

fn unbounded() -> Held {
    let most = 1 << 20;
    Held { max: most, max_per_tenant: most, max_wait: Span::secs(3600), ..Held::default() }
}
