//! The configuration of a region's decisions.

use crate::admission::Admission;
use crate::breaker::BreakerConfig;
use crate::held::HeldConfig;
use crate::policy::{Params, Spec};
use crate::probe::ProbeConfig;
use crate::topology::{Peering, Topology};

/// Configuration of a region's routing decisions.
#[derive(Clone, Debug)]
pub struct Config {
    /// The policy and its parameters.
    pub policy: &'static Spec,
    /// Complete parameters of the policy.
    pub params: Params,
    /// When a replica may receive another request.
    pub admission: Admission,
    /// Which peers a request may be forwarded to, and when.
    pub topology: Topology,
    /// Thresholds for judging peers.
    pub peering: Peering,
    /// The held queue's bounds.
    pub held: HeldConfig,
    /// Attempts a request gets before it fails, including the first.
    pub attempts: u32,
    /// When circuit breakers open.
    pub breaker: BreakerConfig,
    /// Pace of probes.
    pub probe: ProbeConfig,
    /// Initial prefill time, ms a token, until answers provide a measurement.
    pub ms_per_token: f64,
    /// KV size assumed if neither the config nor the engine reports it, tokens.
    pub default_kv_tokens: u64,
    /// Most entries that the prefix index reserves memory for, even if the policy asks for more:
    /// for a driver that knows how much all replicas can hold, including the peers'. The peers'
    /// index reserves twice as many.
    pub index_entries: usize,
    /// Most replicas the region can have. Ids from this number on are ignored; the driver refuses
    /// such a replica before.
    pub max_replicas: u16,
    /// Decisions kept for explain.
    pub explain_keep: usize,
    /// Candidates recorded with a decision; a dry run records all.
    pub explain_candidates: usize,
    /// Whether there are siblings, to which this gateway reports its requests.
    pub has_siblings: bool,
    /// A second policy whose decisions are only recorded; `None` for none.
    pub shadow: Option<ShadowConfig>,
}

impl Config {
    /// `policy` with its published defaults.
    #[must_use]
    pub fn new(policy: &'static Spec) -> Config {
        Config {
            policy,
            params: Params::defaults(policy),
            admission: policy.admission,
            topology: Topology::default(),
            peering: Peering::default(),
            held: HeldConfig::default(),
            attempts: 3,
            breaker: BreakerConfig::default(),
            probe: ProbeConfig::default(),
            ms_per_token: 0.1,
            default_kv_tokens: 500_000,
            index_entries: usize::MAX,
            max_replicas: 1024,
            explain_keep: 256,
            explain_candidates: 64,
            has_siblings: false,
            shadow: None,
        }
    }
}

/// The configuration of a shadow policy.
#[derive(Clone, Debug)]
pub struct ShadowConfig {
    /// The policy.
    pub policy: &'static Spec,
    /// Complete parameters of it.
    pub params: Params,
    /// When a replica may receive another request, by its rule.
    pub admission: Admission,
}

impl ShadowConfig {
    /// `policy` with its published defaults.
    #[must_use]
    pub fn new(policy: &'static Spec) -> ShadowConfig {
        let (params, admission) = (Params::defaults(policy), policy.admission);
        ShadowConfig { policy, params, admission }
    }
}
