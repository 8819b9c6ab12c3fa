//! The known state of a replica, and its age.
//!
//! It combines two sources. The engine's own report (pending, running, KV use) is complete but old;
//! this gateway's dispatches since then are current but only ours. Both always count: with the
//! report alone, every request of a probe interval would go to the same replica.

mod figures;
pub(crate) mod lingering;
pub(crate) mod model_breakers;
mod refusals;
mod report;
mod siblings;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, Pool, RequestId, Time};

use self::lingering::Lingering;
use self::model_breakers::ModelBreakers;
pub use self::refusals::MOST_PAUSE;
use crate::adapters::Adapters;
use crate::breaker::{Breaker, BreakerConfig, BreakerState};
use crate::cost::{Ewma, Gaps, Share};
use crate::kind::{LearnedFigures, Own};
use crate::legs::Legs;
use crate::request::Usage;
use crate::reuse::{Reuse, Used};
use crate::row::{Row, SiblingShare};
use crate::slots::Slots;
use crate::steps::Steps;
use meridian_base::residency::Place;

/// The driver's description of a replica when it joins.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaSpec {
    /// The models it serves.
    pub models: Vec<ModelId>,
    /// KV cache size in tokens; `None` until an engine reports it.
    pub kv_tokens: Option<u64>,
    /// Most requests it runs at once (slots); `None` if unlimited or unknown.
    pub slots: Option<u32>,
    /// Relative capacity, 1 for an ordinary replica.
    pub weight: u32,
    /// Round trip to it: zero within the region, more if a gateway serves replicas elsewhere.
    pub rtt: Duration,
    /// Its location, for residency rules.
    pub place: Arc<Place>,
    /// Its role, and what pairs it with others.
    pub pool: Pool,
}

/// An engine's load report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Accepted but not in the batch yet; `None` if the engine does not report it.
    pub pending: Option<u32>,
    /// In the batch.
    pub running: Option<u32>,
    /// Share of KV memory in use, 0 to 1.
    pub kv_used: Option<f32>,
    /// KV cache size in tokens, if the report contains it.
    pub kv_tokens: Option<u64>,
}

/// Whether a replica takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Joined, with no probe answered yet. It receives requests: a probe is no precondition.
    Unproven,
    /// Answers its probes.
    Up,
    /// Missed its probes.
    Down,
    /// Finishes its requests and receives no new ones.
    Draining,
}

/// Reports whose drift is kept: a correction needs this many in a row to agree.
const DRIFT_MEMORY: usize = 4;
/// Predicted matches shorter than this are too short to judge predictions by, tokens.
const TRUSTED_FROM: f32 = 64.0;
/// Weight of one answer in the trust.
const TRUST_GAIN: f32 = 0.05;
/// Time constant of the mean time between ends.
const ENDS_TAU: Duration = Duration::from_secs(5);
/// Time constant of the utilisation u.
const UTILISATION_TAU: Duration = Duration::from_secs(2);

/// A request that was sent to a replica without capacity for it. The replica receives nothing else
/// until the request fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) to: RequestId,
    pub(crate) at: Time,
    /// Its answer does not stream, so no first token will show that it started: a later report with
    /// nothing pending does.
    pub(crate) by_report: bool,
}

/// What a request needs at a replica, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) prompt: f32,
    /// Prompt tokens to compute there.
    pub(crate) prefill: f32,
    /// KV memory for the prompt beyond what is cached there.
    pub(crate) kv: f32,
    /// The expected reply.
    pub(crate) reply: f32,
    /// When the attempt was sent, to this replica or to the one that computes its prompt.
    pub(crate) sent: Time,
}

/// All known state of one replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) spec: ReplicaSpec,
    /// The number of its place.
    pub(crate) place: u8,
    pub(crate) state: State,
    pub(crate) breaker: Breaker,
    pub(crate) of_models: ModelBreakers,
    pub(crate) load: Load,
    pub(crate) adapters: Adapters,
    /// The longest contexts of its models, as far as its engine reports them.
    pub(crate) contexts: Vec<(ModelId, u32)>,
    /// The number of its kind, what its answers prove about itself, and its figures by both.
    pub(crate) kind: u16,
    pub(crate) own: Own,
    pub(crate) figures: LearnedFigures,
    pub(crate) steps: Steps,
    ends: Gaps,
    pub(crate) failed: Lingering,
    /// When the newest report was requested: later dispatches are not in it.
    pub(crate) reported: Option<Time>,
    pub(crate) probe_misses: u32,
    /// It missed so many probes that the driver was informed that it is down.
    pub(crate) silent: bool,
    pub(crate) probing: bool,
    pub(crate) next_probe: Time,
    /// Dispatches that have not ended, ours and those that siblings reported, and those of them without a
    /// first token.
    pub(crate) outstanding: u32,
    pub(crate) waiting: u32,
    /// Dispatches of siblings among them.
    pub(crate) of_siblings: SiblingShare,
    pub(crate) outstanding_tokens: f32,
    pub(crate) front_tokens: f32,
    /// Expected tokens of the replies to our outstanding requests.
    reply_tokens: f32,
    pub(crate) legs: Legs,
    reuse: Reuse,
    slots: Slots,
    /// Own dispatches since the newest report was requested: time and unmatched tokens.
    recent: VecDeque<(Time, f32)>,
    /// The sum of their tokens. There may be thousands between two reports, so it is not added up for
    /// each decision.
    unreported_tokens: f32,
    /// Dispatches by the time their first token is due, and how many are past it.
    pub(crate) due: VecDeque<(Time, RequestId)>,
    pub(crate) overdue: u32,
    /// The request that is promised the next free capacity here.
    pub(crate) promised: Option<Promise>,
    /// The engine has answered 429 or 503 since its last report.
    said_full: bool,
    /// Number of such answers in a row while it was idle, and until when it then gets no request.
    idle_refusals: u32,
    full_until: Time,
    /// Until when the engine asked for none.
    paused_until: Time,
    /// Reported running + pending minus ours, for the last reports.
    drift: [i32; DRIFT_MEMORY],
    /// Cached tokens reported over predicted.
    pub(crate) trust: f32,
    prefill_share: Share,
    utilisation: Ewma,
    pub(crate) totals: Totals,
}

/// Counts since the replica joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Attempts sent here.
    pub dispatched: u64,
    /// Attempts that succeeded.
    pub done: u64,
    /// Attempts that failed because of the replica.
    pub failed: u64,
    /// Attempts that the engine refused as full.
    pub full: u64,
    /// Prompt tokens, if the engine reported them.
    pub prompt_tokens: u64,
    /// Of those, tokens the engine found cached.
    pub cached_tokens: u64,
    /// Prompts whose KV came here from a prefill replica, as their first tokens show.
    pub fetched: u64,
    /// Tokens of that KV, as the prefix index estimates them.
    pub fetched_tokens: u64,
}

/// The status of a replica, for a status page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// Whether it takes requests.
    pub state: State,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Its load figures.
    pub row: Row,
    /// The engine's newest report.
    pub load: Load,
    /// Counts.
    pub totals: Totals,
    /// Our own dispatches that have not ended, exactly.
    pub own_outstanding: u32,
    /// The same of siblings, as far as they told.
    pub of_siblings: u32,
    /// Requests that will come here after their prefill elsewhere, and prompts prefilled here that
    /// have not been fetched: with either, the replica is still needed.
    pub legs: u32,
    /// Requests the engine has beyond ours (positive: other gateways; negative: it lost some).
    pub drift: i32,
}

impl Replica {
    /// A replica of no kind yet, whose figures are a guess.
    pub(crate) fn new(spec: ReplicaSpec, breaker: BreakerConfig, ms_per_token: f64) -> Replica {
        let figures = LearnedFigures { ms_per_token, fixed_ms: 0.0, step_slope_ms: ms_per_token };
        Replica {
            load: Load { kv_tokens: spec.kv_tokens, ..Load::default() },
            spec,
            adapters: Adapters::default(),
            contexts: Vec::new(),
            place: 0,
            state: State::Unproven,
            breaker: Breaker::new(breaker),
            of_models: ModelBreakers::default(),
            kind: 0,
            own: Own::NONE,
            figures,
            steps: Steps::default(),
            ends: Gaps::new(ENDS_TAU),
            failed: Lingering::NONE,
            reported: None,
            probe_misses: 0,
            silent: false,
            probing: false,
            next_probe: Time::MAX,
            outstanding: 0,
            waiting: 0,
            of_siblings: SiblingShare::default(),
            outstanding_tokens: 0.0,
            front_tokens: 0.0,
            reply_tokens: 0.0,
            legs: Legs::default(),
            reuse: Reuse::default(),
            slots: Slots::default(),
            recent: VecDeque::new(),
            unreported_tokens: 0.0,
            due: VecDeque::new(),
            overdue: 0,
            promised: None,
            said_full: false,
            idle_refusals: 0,
            full_until: Time::ZERO,
            paused_until: Time::ZERO,
            drift: [0; DRIFT_MEMORY],
            trust: 1.0,
            prefill_share: Share::new(UTILISATION_TAU),
            utilisation: Ewma::new(UTILISATION_TAU),
            totals: Totals::default(),
        }
    }

    /// Records that a request of ours was sent here.
    pub(crate) fn sent(&mut self, now: Time, work: Work) {
        self.add(now, work);
        self.totals.dispatched += 1;
        self.breaker.sent(now, work.sent);
    }

    fn add(&mut self, now: Time, work: Work) {
        self.outstanding += 1;
        self.waiting += 1;
        self.reply_tokens += work.reply;
        self.outstanding_tokens += work.prompt;
        self.front_tokens += work.prefill;
        self.recent.push_back((now, work.kv));
        self.unreported_tokens += work.kv;
    }

    /// Records how a dispatch uses the prefix cache.
    pub(crate) fn used_cache(&mut self, now: Time, used: Used) {
        self.reuse.add(now, used);
    }

    /// When the first token of one more request would be late: twice the prediction and a bit.
    pub(crate) fn first_token_due(&self, now: Time, unmatched: f32) -> Time {
        let LearnedFigures { ms_per_token, fixed_ms, .. } = self.figures;
        let ms = fixed_ms + ms_per_token * f64::from(self.front_tokens + unmatched);
        let ms = 2.0 * ms + 50.0;
        now + self.spec.rtt + Duration::from_nanos((ms * 1e6) as u64)
    }

    /// Records a request's first token, or that there will be none.
    pub(crate) fn first_token(&mut self, id: RequestId, unmatched: f32) {
        self.promised = self.promised.filter(|promise| promise.to != id);
        assert!(self.waiting > 0, "the prompt of {id} is computed once");
        self.prompt_computed(unmatched);
    }

    /// A request that may have counted as `overdue` is so no more.
    pub(crate) fn not_overdue(&mut self, overdue: bool) {
        assert!(self.overdue >= u32::from(overdue), "a late request is counted once");
        self.overdue -= u32::from(overdue);
    }

    /// Records a request's end.
    pub(crate) fn ended(&mut self, now: Time, prompt_tokens: f32, reply: f32) {
        self.slots.ended();
        self.ends.add(now);
        assert!(self.outstanding > 0, "a request ends once");
        self.outstanding -= 1;
        assert!(self.waiting <= self.outstanding, "the prompt of a request ends before it");
        self.reply_tokens = (self.reply_tokens - reply).max(0.0);
        self.outstanding_tokens = (self.outstanding_tokens - prompt_tokens).max(0.0);
        if self.outstanding == 0 {
            // Sums of floats do not return to exactly zero.
            self.outstanding_tokens = 0.0;
            self.front_tokens = 0.0;
            self.reply_tokens = 0.0;
        }
    }

    /// Counts an answer's usage as the engine reported it, and compares it with the prediction.
    pub(crate) fn account(&mut self, usage: Usage, predicted: f32) {
        let Some(cached) = usage.cached_tokens else { return };
        self.totals.prompt_tokens += u64::from(usage.prompt_tokens);
        self.totals.cached_tokens += u64::from(cached);
        // Short predictions are mostly rounding to whole blocks.
        if predicted >= TRUSTED_FROM {
            let share = (cached as f32 / predicted).min(1.0);
            self.trust += TRUST_GAIN * (share - self.trust);
        }
    }

    /// Checks the counts of our own dispatches.
    pub(crate) fn check(&self, id: meridian_base::ReplicaId) {
        assert!(self.waiting <= self.outstanding, "{id} has no more prompts than requests");
        let theirs = self.of_siblings;
        assert!(theirs.outstanding <= self.outstanding, "{id} has siblings' requests among all");
        assert!(theirs.waiting <= theirs.outstanding, "{id} has no more prompts of siblings");
        assert!(self.overdue <= self.waiting, "{id} is late with requests that are there");
        assert!((0.0..=1.0).contains(&self.trust), "trust in {id} is a share");
    }

    /// The longest context of a model here, in tokens.
    pub(crate) fn context(&self, model: ModelId) -> u32 {
        let found = self.contexts.iter().find(|(of, _)| *of == model);
        found.map_or(u32::MAX, |(_, tokens)| *tokens)
    }

    fn unreported(&self) -> u32 {
        self.recent.len() as u32
    }

    /// Records that the prefill of so many tokens ended now.
    pub(crate) fn prefilled(&mut self, now: Time, tokens: f32) {
        let ms = self.figures.ms_per_token * f64::from(tokens);
        self.steps.prefilled(ms);
        self.prefill_share.add(now, ms);
        self.reuse.prefilled(now, ms);
    }
}
