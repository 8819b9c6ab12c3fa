//! Experiments with flow policies: clusters under a sweep of rates.

use serde::{Deserialize, Serialize};

use crate::cluster::file::{File, Flow, Served};

/// Which clusters, rates and policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSweep {
    /// Servers and network, and the settings of every run; its models stand in the cases.
    pub cluster: File,
    /// What is served, a case each.
    pub cases: Vec<Case>,
    /// What is compared.
    pub systems: Vec<FlowSystem>,
    /// Published figures.
    #[serde(default)]
    pub published: Vec<FlowClaim>,
    /// Requests of a run in the small variant.
    pub quick_requests: usize,
}

/// A model, or several, with the rates that it is asked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name in tables.
    pub name: String,
    /// What is served.
    pub models: Vec<Served>,
    /// Requests a second for each GPU that computes prompts.
    pub rates: Vec<f64>,
    /// A network of its own, in place of the sweep's.
    pub network: Option<crate::cluster::file::Network>,
}

/// A policy, with what differs from its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSystem {
    /// Its name in tables; a policy's, where no policy is given.
    pub name: String,
    /// The policy.
    pub policy: Option<String>,
    /// Its settings.
    #[serde(default)]
    pub flow: Flow,
    /// KV and collectives have a network each.
    #[serde(default)]
    pub apart: bool,
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
    /// What it says.
    pub what: String,
    /// Where.
    pub source: String,
    /// What is compared.
    pub metric: Compared,
    /// Whose figure.
    pub of: String,
    /// Over whose: the best of these.
    pub over: Vec<String>,
    /// The cases that it speaks of; all without names.
    #[serde(default)]
    pub cases: Vec<String>,
    /// The published ratio, from and to. Empty for a comparison that the paper has not.
    #[serde(default)]
    pub published: Vec<f64>,
}

/// What of two systems is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Share of requests in time, at the rate where the ratio is largest.
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
