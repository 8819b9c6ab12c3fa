//! Settings of policy comparisons only: the half of the workloads used for tuning, a policy's swept
//! parameters, and causes for results behind others.

use std::collections::BTreeMap;

use meridian_config::{AdmissionMode, Probe};
use meridian_protocol::policy::{Policy, Scalar};
use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

use super::{Digests, System, Topology, unbounded};

/// The purpose of a workload, so that no policy is judged on workloads it was tuned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// Used to choose parameters.
    Tuning,
    /// Used to judge the chosen parameters.
    Judging,
}

impl Half {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Half::Tuning => "tuning",
            Half::Judging => "judging",
        }
    }
}

/// The parameters of one policy that are swept: every combination is a candidate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The policy.
    pub policy: String,
    /// Values of its parameters; parameters not listed keep their published defaults.
    #[serde(default)]
    pub params: BTreeMap<String, Vec<Scalar>>,
    /// Admission modes in addition to the policy's own.
    #[serde(default)]
    pub admission: Vec<AdmissionMode>,
}

/// A policy as tuned by a sweep: a line of `experiments/tuned.yaml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// The policy.
    pub policy: String,
    /// The arrangement it was tuned in.
    pub topology: Topology,
    /// Parameters that differ from the published defaults.
    #[serde(default)]
    pub params: BTreeMap<String, Scalar>,
    /// The admission mode, if different from the policy's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionMode>,
}

impl Tuned {
    /// The tuned policy as a system of this name in `topology`, which queues requests without a
    /// limit. A line that changes nothing also has what its publication sets beside the policy:
    /// SkyWalker's queue strictly in order, and the saturation detector of llm-d's chart.
    #[must_use]
    pub fn system(&self, name: String, topology: Topology) -> System {
        let mut system = self.plain(name, topology);
        let as_published = self.params.is_empty() && self.admission.is_none();
        match self.policy.as_str() {
            "skywalker" | "skywalker_ch" | "skywalker_steal" if as_published => {
                system.held.look_ahead = 1;
            }
            // llm-d scrapes every 50 ms.
            "llmd_blend" | "no_hit_lru" | "llmd_sticky" | "llmd_predicted" => {
                system.probe.busy = Span::millis(50);
                if as_published && matches!(self.policy.as_str(), "llmd_blend" | "no_hit_lru") {
                    system.admission = Some(AdmissionMode::Saturation);
                }
            }
            _ => {}
        }
        system
    }

    fn plain(&self, name: String, topology: Topology) -> System {
        System {
            name,
            policy: Policy { name: self.policy.clone(), params: self.params.clone() },
            admission: self.admission,
            topology,
            gateways: 1,
            siblings: None,
            probe: Probe::default(),
            held: unbounded(),
            digests: Digests::default(),
            whole: false,
        }
    }
}

/// The cause of a result behind others. The first that matches applies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// The cause, in a few words.
    pub cause: String,
    /// Workloads it is about; all when empty.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Fleets it is about; all when empty.
    #[serde(default)]
    pub fleets: Vec<String>,
    /// Metrics it is about; all when empty.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Topologies it is about. `all` is the comparison over all of them; everything if empty.
    #[serde(default)]
    pub topologies: Vec<String>,
    /// Policies it is about that are ahead of ours; all when empty.
    #[serde(default)]
    pub rivals: Vec<String>,
}
