//! Flow scheduling on real sockets: a prefill replica of two hosts, a KV store and a decode host, and
//! the flows between them.

use meridian_protocol::units::Span;
use meridian_tools::cluster::file::Rate;
use meridian_tools::given::file::Volume;
use serde::{Deserialize, Serialize};

/// The hosts' links, the load and the systems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowTestbed {
    /// Rate of each host's link, each direction.
    pub link: Rate,
    /// Bytes of a permit.
    pub chunk: Volume,
    /// Bytes that a link queues, in each class.
    pub queue: Volume,
    /// Connections between two hosts over which Mooncake spreads transfers, up to 16.
    pub lanes: u32,
    /// The model.
    pub model: TestbedModel,
    /// The requests.
    pub load: TestbedLoad,
    /// Objectives, in multiples of the request's own TTFT at low load.
    pub slo: TestbedSlo,
    /// The systems compared. `fair` must be among them.
    pub systems: Vec<TestbedSystem>,
    /// Live runs of each system.
    pub rounds: u32,
    /// Requests of a run in the small variant.
    pub quick_requests: u32,
}

/// The cost of a token in each layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedModel {
    /// Layers.
    pub layers: u16,
    /// Time of a layer without tokens.
    pub layer: Span,
    /// Further time for each token that a rank computes.
    pub token: Span,
    /// KV of a token.
    pub kv: Volume,
    /// Bytes of a token in one exchange; a layer has two.
    pub exchange: Volume,
}

/// Requests, drawn by the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedLoad {
    /// Requests of a run.
    pub requests: u32,
    /// Requests a second, a Poisson process.
    pub rate: f64,
    /// Mean tokens of a prompt.
    pub prompt: f64,
    /// Coefficient of variation of a prompt's tokens.
    pub variation: f64,
    /// The share of a prompt's tokens that is cached: uniform between these.
    pub cached: [f64; 2],
    /// Most requests of a batch.
    pub batch: u32,
}

/// Objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedSlo {
    /// For the share of requests in `tight_share`.
    pub tight: f64,
    /// For the others.
    pub loose: f64,
    /// Share of requests with the tight one.
    pub tight_share: f64,
}

/// A way to order flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedSystem {
    /// Its name.
    pub name: String,
    /// The flow policy of the simulated side, and of the gates.
    pub policy: String,
    /// The flows that wait for permits.
    #[serde(default)]
    pub gate: Gated,
    /// Whether links know two classes, collectives and KV.
    #[serde(default)]
    pub classes: bool,
    /// Whether the coordinator of gates is killed when half of the requests have arrived. The
    /// simulated side keeps it.
    #[serde(default)]
    pub lose_coordinator: bool,
}

/// The flows that wait for permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gated {
    /// None.
    #[default]
    None,
    /// Fetches and handoffs.
    Kv,
    /// All.
    All,
}
