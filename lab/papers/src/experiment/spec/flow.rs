//! Experiments with flow policies: clusters under a sweep of rates.

use meridian_tools::cluster::file::{Coordinator, Enforce, File, Flow, Network, Rate, Served};
use serde::{Deserialize, Serialize};

/// The clusters, rates and policies of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSweep {
    /// Servers and network, and the settings of every run; the cases have the models.
    pub cluster: File,
    /// The cases.
    pub cases: Vec<Case>,
    /// The systems compared.
    pub systems: Vec<FlowSystem>,
    /// Published figures.
    #[serde(default)]
    pub published: Vec<FlowClaim>,
    /// Requests of a run in the small variant.
    pub quick_requests: usize,
}

/// One or several models, with their rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name in tables.
    pub name: String,
    /// The models.
    pub models: Vec<Served>,
    /// Requests a second for each prefill GPU.
    pub rates: Vec<f64>,
    /// A network that replaces the sweep's.
    pub network: Option<Network>,
    /// A rate of the cards that replaces the sweep's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<Rate>,
}

/// A policy, with changed settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSystem {
    /// Its name in tables; also the policy's, if no policy is given.
    pub name: String,
    /// The policy.
    pub policy: Option<String>,
    /// Its settings.
    #[serde(default)]
    pub flow: Flow,
    /// Whether KV and collectives have separate networks.
    #[serde(default)]
    pub apart: bool,
    /// Where the order of flows holds, in place of the cluster's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce: Option<Enforce>,
    /// A coordinator that replaces the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<Coordinator>,
}

impl FlowSystem {
    /// The policy's name.
    #[must_use]
    pub fn policy(&self) -> &str {
        self.policy.as_deref().unwrap_or(&self.name)
    }
}

/// A published ratio of one system to the best of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowClaim {
    /// The claim in words.
    pub what: String,
    /// Its place in the paper.
    pub source: String,
    /// The metric compared.
    pub metric: Compared,
    /// The system.
    pub of: String,
    /// The systems compared with: the best of these counts.
    pub over: Vec<String>,
    /// Its cases; all by default.
    #[serde(default)]
    pub cases: Vec<String>,
    /// The published ratio, from and to. Empty for a comparison that is not in the paper.
    #[serde(default)]
    pub published: Vec<f64>,
}

/// The metric compared between two systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Share of requests in time, at the rate where fair sharing has nearest to half in time.
    Attainment,
    /// The rate up to which nine of ten requests are in time.
    Rate,
    /// Mean TTFT, in the mean over rates.
    Ttft,
    /// Mean exchange, in the mean over rates.
    Cct,
    /// Mean earliness of those in time, in the mean over rates.
    Earliness,
}
