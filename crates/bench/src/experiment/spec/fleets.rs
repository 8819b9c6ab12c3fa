//! Experiments with planned fleets: HeroServe's systems in both modes.

use meridian_wire::config::Span;
use serde::{Deserialize, Serialize};

use crate::fleet::{Layout, System};

/// What is served where, a case each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleets {
    /// The cases.
    pub cases: Vec<FleetCase>,
    /// How long requests come.
    pub window: Span,
    /// How long in the small variant.
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
    /// A topology that comes along; its first unit counts.
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
    /// Where instances stand.
    pub placement: Layout,
    /// Requests a second for each GPU at which latencies and memory are compared; what DistServe
    /// sustains without one.
    pub rate: Option<f64>,
}

/// A published ratio of HeroServe to another system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetClaim {
    /// What it says.
    pub what: String,
    /// Where.
    pub source: String,
    /// What is compared.
    pub metric: FleetMetric,
    /// Over whom: each of these.
    pub over: Vec<System>,
    /// The cases that it speaks of.
    pub cases: Vec<String>,
    /// The published ratio, from and to.
    pub published: Vec<f64>,
}

/// What of two systems is compared.
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

/// Groups that do nothing but all-reduces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchanges {
    /// Topologies that come along; the first unit of each counts.
    pub topologies: Vec<String>,
    /// Sizes of a message in megabytes.
    pub sizes: Vec<f64>,
    /// How long.
    pub window: Span,
    /// How long in the small variant.
    pub quick_window: Span,
    /// Published figures; cases are topologies.
    #[serde(default)]
    pub published: Vec<FleetClaim>,
}
