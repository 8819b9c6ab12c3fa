//! Ranges from which `release` draws its workloads.

use std::collections::BTreeMap;

use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

use super::{Measure, Ref, System};

/// From, to. Numbers are drawn evenly by their logarithm; if both ends are whole, they are whole.
pub type Range = [f64; 2];

/// Ranges of everything that is drawn.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// Workloads to draw.
    pub workloads: u32,
    /// Workloads to draw in the small variant.
    pub quick_workloads: u32,
    /// Round trip between two regions, ms.
    pub rtt_ms: Range,
    /// Round trip within a region, ms.
    pub local_rtt_ms: Range,
    /// Weight of a region's clients; the weights are scaled to a sum of 1.
    pub share: Range,
    /// Replicas of a region.
    pub replicas: Range,
    /// GPUs of a fleet: each replica has one of the set that is drawn.
    pub gpus: Vec<Vec<String>>,
    /// Most sequences in a batch, if limited.
    pub slots: Chance,
    /// KV tokens of a replica, if it has fewer than its GPU holds.
    pub kv_tokens: Chance,
    /// How many times as long the steps of one replica take in the middle of the window.
    pub degraded: Chance,
    /// The rate of a burst over that between bursts.
    pub bursts: Chance,
    /// Generators; each is drawn once before any is drawn again.
    pub generators: Vec<Ranges>,
    /// The measurement of the fleets' capacity.
    pub capacity: CapacityRuns,
    /// Requests that a window at the whole capacity has.
    pub requests: f64,
    /// The shortest and the longest window.
    pub window: [Span; 2],
}

/// A setting that some workloads have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chance {
    /// The share of workloads that have it.
    pub chance: f64,
    /// Its range.
    pub range: Range,
}

/// A generator and the ranges of its knobs; knobs not listed keep their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranges {
    /// Its name.
    pub name: String,
    /// Ranges by knob.
    #[serde(default)]
    pub knobs: BTreeMap<String, Range>,
}

/// How capacity is measured: on seeds of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityRuns {
    /// The systems, of which the one that answers most counts. The first one finds the range.
    pub systems: Vec<Ref<System>>,
    /// The first seed.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// The measured part of a run.
    pub measure: Measure,
}
