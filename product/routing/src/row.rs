//! A replica's figures, as a decision reads them.
//!
//! Not here: how they come about (`replica.rs`), and the arrays of all of them (`replicas.rs`).

use meridian_base::Pool;

use crate::why::Ineligible;

/// The figures that a decision reads, in one small row per replica, so that a scan of a thousand
/// stays in the processor's nearest caches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Our own dispatches that have not ended, requests that come here after their prefill, and the
    /// `failed` ones.
    pub outstanding: u32,
    /// Reported pending plus our dispatches since that report; without reports, our dispatches
    /// without a first token past their predicted time.
    pub pending: u32,
    /// Our dispatches that have had their first token or need no prefill here, and the `failed` ones.
    pub running: u32,
    /// Attempts that failed sooner than a good one ends, and count as that one until then.
    pub failed: u32,
    /// Prefill tokens ahead: prompt minus match over own dispatches without a first token, and over the
    /// `failed` ones.
    pub front_tokens: f32,
    /// Prompt tokens of the outstanding requests.
    pub outstanding_tokens: f32,
    /// Share of KV in use as reported, 0 to 1.
    pub kv_used: f32,
    /// KV tokens free for new work: size - in use - own unreported - growth of the replies - what
    /// the prefix cache needs.
    pub kv_free: f32,
    /// Smoothed utilisation u of the default policy, 0 to 1.
    pub utilisation: f32,
    /// Calibrated prefill time, ms a token.
    pub ms_per_token: f32,
    /// By how much one more running request lengthens a decode step, ms.
    pub step_slope_ms: f32,
    /// Mean time until the next request ends, ms; infinite before any has.
    pub next_end_ms: f32,
    /// Pending as the engine last reported it, without our own additions (SkyWalker's signal).
    pub reported_pending: u32,
    /// Free slots by the last report and our dispatches since, 0 while a request waits there for
    /// longer than prefill explains; `u32::MAX` if no limit is known.
    pub free_slots: u32,
    /// Weight of the inferred prefix matches here, 0 to 1: lowered when engines report fewer
    /// cached tokens than were predicted.
    pub trust: f32,
    /// Round trip to it in ms; zero within the region.
    pub rtt_ms: f32,
    /// Tokens of KV under way to or from here.
    pub moving_tokens: f32,
    /// Tokens of KV prefilled here that the decode replicas have not fetched.
    pub held_tokens: f32,
    /// Its relative capacity as configured.
    pub weight: u32,
    /// Its role, and what pairs it with others.
    pub pool: Pool,
    /// Why it takes no requests; `None` when it does.
    pub closed: Option<Ineligible>,
}

/// What siblings have at a replica. It is part of what the replica's row says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiblingShare {
    /// Their requests that have not ended.
    pub outstanding: u32,
    /// Of these, those without a first token.
    pub waiting: u32,
    /// Prefill tokens of the waiting ones.
    pub front_tokens: f32,
}
