//! Workloads and their loads: closed loops, open ones, and recorded ones.

use std::collections::BTreeMap;

use meridian_protocol::policy::Policy;
use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

use super::{Half, Measure, Outage, Trace};

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its loads, each in one or more regions.
    pub loads: Vec<Load>,
    /// Fleets that it runs on; all of the experiment's if empty.
    #[serde(default)]
    pub fleets: Vec<String>,
    /// Systems that it runs under; all of the experiment's if empty. It does not affect a run.
    #[serde(default, skip_serializing)]
    pub systems: Vec<String>,
    /// Parts of the world that are lost for a part of the measured window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Outage>,
    /// The measured part of its runs, if different from the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// Whether it is used for tuning or for judging. It does not affect the run.
    #[serde(skip_serializing)]
    pub half: Option<Half>,
    /// The share of its loads' capacity that it offers, if it is one of the experiment's `levels`;
    /// its name then ends with it.
    #[serde(skip)]
    pub level: Option<f64>,
    /// Round-trip times in place of those of the regions, if they were drawn for this workload.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<Vec<Vec<f64>>>,
}

impl Workload {
    /// This workload at a level.
    #[must_use]
    pub fn at(&self, level: f64) -> Workload {
        let name = format!("{}{}", self.name, suffix(level));
        Workload { name, level: Some(level), ..self.clone() }
    }

    /// Its name without the level.
    #[must_use]
    pub fn base(&self) -> &str {
        let base = self.level.and_then(|level| self.name.strip_suffix(&suffix(level)));
        base.unwrap_or(&self.name)
    }
}

/// The end of the name of a workload at a level.
fn suffix(level: f64) -> String {
    format!(" at {} %", (level * 1000.0).round() / 10.0)
}

/// A load: a closed loop (`clients`), an open one (`rate` or `capacity`), or a recorded one
/// (`trace`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The generator of their programs: a name, or a map with `name` and its knobs.
    pub generator: Option<Policy>,
    /// Recorded requests in place of a generator's, each at its own time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Clients in each region, each with one program at a time.
    pub clients: Option<Vec<u32>>,
    /// Requests a second in each region, regardless of earlier ones.
    pub rate: Option<Vec<f64>>,
    /// Requests a second that the fleet can answer, in all regions: an open loop that offers as
    /// much, or the share of it that the experiment's `levels` give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// Each region's share of the capacity; the list is scaled to a sum of 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Vec<f64>>,
    /// Bursts of an open loop, each region's at a time of its own; the mean rate stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Clients of a closed loop start within this time.
    #[serde(default = "ramp")]
    pub ramp: Span,
    /// An open loop reaches its rate linearly within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise: Option<Span>,
    /// Regions that may serve the requests of a region; a region that is not named has no rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub may_run_in: BTreeMap<String, Vec<String>>,
    /// Programs that each client runs; without a number, until the window ends.
    pub programs: Option<u64>,
}

impl Load {
    /// Requests a second in each region of an open loop at `level`; `None` for other loads.
    #[must_use]
    pub fn rates(&self, level: Option<f64>) -> Option<Vec<f64>> {
        let given = || {
            let (capacity, share) = (self.capacity?, self.share.as_ref()?);
            let each = capacity * level.unwrap_or(1.0) / share.iter().sum::<f64>();
            Some(share.iter().map(|share| share * each).collect())
        };
        self.rate.clone().or_else(given)
    }
}

/// Bursts of an open loop: for `length` of each `every`, the rate is `times` that between bursts.
///
/// The mean rate stays, because the rate between bursts is lower than it:
/// mean / (1 + (times - 1) length / every). The seed gives each region the time of its first burst,
/// which lies within the first `every`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// The rate of a burst over that between bursts; at least 1.
    pub times: f64,
    /// The length of a burst; above 0.
    pub length: Span,
    /// From the start of a burst to that of the next; longer than a burst.
    pub every: Span,
}

impl From<Bursts> for meridian_workload::Bursts {
    fn from(bursts: Bursts) -> meridian_workload::Bursts {
        meridian_workload::Bursts {
            times: bursts.times,
            length_s: bursts.length.0.as_secs_f64(),
            every_s: bursts.every.0.as_secs_f64(),
        }
    }
}

fn ramp() -> Span {
    Span::secs(10)
}
