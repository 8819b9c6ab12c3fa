//! Experiments with planned fleets: HeroServe's systems in three modes.

use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

use crate::fleet::{Layout, System};

/// The cases and figures of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleets {
    /// The cases.
    pub cases: Vec<FleetCase>,
    /// Duration of the arrivals.
    pub window: Span,
    /// Duration in the small variant.
    pub quick_window: Span,
    /// Published figures.
    #[serde(default)]
    pub published: Vec<FleetClaim>,
}

/// A model on one unit of a topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetCase {
    /// Its name in tables.
    pub name: String,
    /// A built-in topology, of which the first unit is used.
    pub topology: String,
    /// Another kind of GPU in all of its servers.
    pub gpu: Option<String>,
    /// The model.
    pub model: String,
    /// `chat` or `summaries`.
    pub lengths: String,
    /// Objective of the TTFT.
    pub ttft: Span,
    /// Objective of the TPOT.
    pub tpot: Span,
    /// The placement of instances.
    pub placement: Layout,
    /// Requests a second for each GPU at which latencies and memory are compared; by default the
    /// rate that DistServe sustains.
    pub rate: Option<f64>,
    /// Whether the small variant has it.
    #[serde(default)]
    pub quick: bool,
}

impl Fleets {
    /// The small variant: the cases marked for it, for a short time.
    #[must_use]
    pub fn small(mut self) -> Fleets {
        self.window = self.quick_window;
        self.cases.retain(|case| case.quick);
        self
    }
}

/// A published ratio of HeroServe to another system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetClaim {
    /// The claim in words.
    pub what: String,
    /// Its place in the paper.
    pub source: String,
    /// The metric compared.
    pub metric: FleetMetric,
    /// The systems compared with, each separately.
    pub over: Vec<System>,
    /// Its cases.
    pub cases: Vec<String>,
    /// The published ratio, from and to.
    pub published: Vec<f64>,
}

/// The metric compared between two systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetMetric {
    /// The largest rate that meets the objectives.
    Rate,
    /// Mean TTFT.
    Ttft,
    /// Mean TPOT.
    Tpot,
    /// KV memory held.
    Kv,
    /// Bytes that are all-reduced a second.
    Throughput,
}

/// Groups that only do all-reduces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchanges {
    /// Built-in topologies, of each of which the first unit is used.
    pub topologies: Vec<String>,
    /// The groups on each.
    pub groups: Vec<Spread>,
    /// Sizes of a message in megabytes.
    pub sizes: Vec<f64>,
    /// Duration.
    pub window: Span,
    /// Duration in the small variant.
    pub quick_window: Span,
    /// Published figures; a case is `topology, groups`.
    #[serde(default)]
    pub published: Vec<FleetClaim>,
}

/// Groups of eight ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Their name in tables.
    pub name: String,
    /// Servers of a group, with equally many ranks on each.
    pub servers: usize,
    /// Most groups; by default as many as fit.
    pub most: Option<usize>,
}
