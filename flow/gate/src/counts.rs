//! What a gate has done, for metrics and tests.

use std::time::Duration;

use meridian_flow::{Output, PermitWhy, Stage};
use serde::Serialize;

/// Counts since the gate was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// Transfers under way.
    pub transfers: u32,
    /// Clients that wait for a permit now.
    pub waiting: u32,
    /// Permits given.
    pub permits: u64,
    /// Bytes permitted, by stage.
    pub reuse_bytes: u64,
    /// Bytes permitted to collectives.
    pub collective_bytes: u64,
    /// Bytes permitted to handoffs.
    pub handoff_bytes: u64,
    /// Permits that failed open.
    pub failed_open: u64,
    /// Permits that had to wait.
    pub waits: u64,
    /// All of their waiting, microseconds.
    pub waited_us: u64,
    /// The longest, microseconds.
    pub longest_wait_us: u64,
    /// Requests given up as infeasible or late, as far as their last handoffs are concerned.
    pub demoted: u64,
    /// Requests pruned so that others can be in time.
    pub pruned: u64,
    /// Batches that were abandoned to make room for new ones.
    pub abandoned: u64,
    /// Inputs that were refused.
    pub refused: u64,
    /// Verdicts of the coordinator.
    pub verdicts: u64,
    /// Whether the coordinator is connected; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<bool>,
    /// Whether the gate has failed, and lets everything pass.
    pub failed: bool,
}

impl Status {
    pub(crate) fn permitted(&mut self, stage: Stage, bytes: u32, waited: Duration, why: PermitWhy) {
        self.permits += 1;
        self.failed_open += u64::from(why == PermitWhy::FailOpen);
        let of_stage = match stage {
            Stage::Reuse => &mut self.reuse_bytes,
            Stage::Collective => &mut self.collective_bytes,
            Stage::Handoff => &mut self.handoff_bytes,
        };
        *of_stage += u64::from(bytes);
        if !waited.is_zero() {
            let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
            self.waits += 1;
            self.waited_us = self.waited_us.saturating_add(waited);
            self.longest_wait_us = self.longest_wait_us.max(waited);
        }
    }

    pub(crate) fn note(&mut self, output: &Output) {
        match output {
            Output::Demoted { .. } => self.demoted += 1,
            Output::Pruned { .. } => self.pruned += 1,
            Output::Refused { .. } => self.refused += 1,
            _ => {}
        }
    }
}
