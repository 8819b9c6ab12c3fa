//! The engine: five methods around a loop of steps.
//!
//! An engine alternates between scheduling (which sequences advance by how many tokens) and
//! computing (one step on the GPU). Scheduling takes no time here; computing takes the time that
//! the profile gives. Requests that arrive during a step wait for the next schedule. The whole
//! state between two calls is therefore a set of sequences, the KV blocks they hold, and the end of
//! the current step.
//!
//! Like every machine in the project, it has these methods:
//! * [`handle`](Engine::handle) takes an external event.
//! * [`poll_timeout`](Engine::poll_timeout) returns when the next internal event is due, and
//!   [`handle_timeout`](Engine::handle_timeout) runs it.
//! * [`poll`](Engine::poll) returns the next output; call it until `None` after either of the
//!   others.
//!
//! Time never goes back: `now` is at least that of the previous call. A late call does no harm:
//! each step starts when the previous one ended, and each output carries its exact time. One
//! schedule sees all arrivals of one instant if they are passed in before `handle_timeout`.
//!
//! Cost: proportional to the batch for a step, to the matched blocks for an admission. The steady
//! state allocates nothing; the driver provides the hashes.

mod held;
mod legs;
mod pipeline;
mod ranks;
mod schedule;
mod step;
#[cfg(test)]
mod tests;

use crate::config::{Config, ConfigError};
use crate::input::{Input, Submission};
use crate::kv::{KvCache, Table};
use crate::leg::Leg;
use crate::output::{Output, Refusal, StopReason};
use crate::sequence::{QueuePlace, Sequence};
use crate::stats::Stats;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use held::Held;
use meridian_base::{RequestId, Rng, Seeded, Time};
use pipeline::Pipeline;
pub use pipeline::{Stage, Way};
pub use ranks::Ranks;
use step::Step;

/// A model of one inference engine. See the [crate documentation](crate).
#[derive(Clone, Debug)]
pub struct Engine {
    config: Config,
    rng: Rng,
    kv: KvCache,
    /// All sequences, by slot; empty slots are in `vacant`.
    slots: Vec<Option<Sequence>>,
    vacant: Vec<u32>,
    by_id: HashMap<u64, u32, Seeded>,
    arrived: VecDeque<u32>,
    pending: VecDeque<u32>,
    /// Decode legs that wait for their KV.
    deferred: Vec<u32>,
    /// Decode legs whose KV has arrived, in that order. They have all blocks that they need, so
    /// they go before pending ones.
    fetched: VecDeque<u32>,
    held: Held,
    /// Whether the last schedule found nothing to compute, because deferred and held blocks leave
    /// too little KV for the first pending request.
    stalled: bool,
    /// In order of admission, so that the last is the latest.
    running: Vec<u32>,
    /// The step in the first stage.
    step: Option<Step>,
    /// Its batch: slot and tokens.
    batch: Vec<(u32, u32)>,
    /// Steps that have left the first of several stages, in the order of their ends.
    later: VecDeque<(Step, Vec<(u32, u32)>)>,
    pipeline: Option<Pipeline>,
    /// Empty block tables, kept to reuse their memory.
    tables: Vec<Table>,
    /// When an idle engine may schedule next.
    wake: Time,
    outputs: VecDeque<Output>,
    counters: Stats,
    /// Factor on step times.
    slow: f64,
}

impl Engine {
    /// An idle engine with an empty cache. `seed` matters only with [`Config::jitter`].
    ///
    /// # Errors
    ///
    /// When the settings are not consistent.
    pub fn new(config: Config, seed: u64) -> Result<Engine, ConfigError> {
        config.validate()?;
        Ok(Engine {
            rng: Rng::new(seed),
            kv: KvCache::new(config.kv_blocks),
            slots: Vec::new(),
            vacant: Vec::new(),
            by_id: HashMap::default(),
            arrived: VecDeque::new(),
            pending: VecDeque::new(),
            deferred: Vec::new(),
            fetched: VecDeque::new(),
            held: Held::default(),
            stalled: false,
            running: Vec::new(),
            step: None,
            batch: Vec::new(),
            later: VecDeque::new(),
            pipeline: None,
            tables: Vec::new(),
            wake: Time::ZERO,
            outputs: VecDeque::new(),
            counters: Stats::default(),
            slow: 1.0,
            config,
        })
    }

    /// Takes an input that happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.advance(now, false);
        match input {
            Input::Submit(submission) => self.submit(now, submission, Leg::Whole),
            Input::SubmitLeg(submission, leg) => self.submit(now, submission, leg),
            Input::Abort(id) => self.abort(now, id),
            Input::Fetched(id) => self.fetched(now, id),
            Input::FetchFailed { id, recompute } => self.fetch_failed(now, id, recompute),
            Input::Renew { id, lease } => self.held.renew(id, now + lease),
            Input::Release(id) => self.release(now, id),
        }
    }

    /// Returns the next output, in order of `at`.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, if no input arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let first = match &self.step {
            Some(step) => Some(step.leaves),
            None if self.has_work() && self.has_room() => Some(self.wake),
            None => None,
        };
        let last = self.later.front().map(|(step, _)| step.ends);
        [first, last, self.held.next_expiry()].into_iter().flatten().min()
    }

    /// Does all that is due at or before `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now, true);
    }

    /// Makes the steps that start from now on take `factor` times as long, like a throttled or
    /// faulty GPU. 1 is normal speed.
    pub fn slow_down(&mut self, factor: f64) {
        self.slow = factor.max(1e-3);
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The numbers behind the metrics page, as of the last call.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            running: self.running.len() as u32,
            pending: self.pending.len() as u32,
            arrived: self.arrived.len() as u32,
            deferred: (self.deferred.len() + self.fetched.len()) as u32,
            held: self.held.len(),
            kv_blocks: self.kv.total(),
            kv_referenced: self.kv.referenced(),
            kv_indexed: self.kv.indexed(),
            evictions: self.kv.evictions(),
            ..self.counters
        }
    }

    /// Counts the leading blocks of `hashes` that are cached: the true value that a router
    /// estimates.
    #[must_use]
    pub fn matched_blocks(&self, hashes: &[u64]) -> u32 {
        self.kv.matched(hashes)
    }

    /// Checks the whole state, in time proportional to its size.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        let live = || self.slots.iter().flatten();
        let in_use = live().map(|s| &s.table).chain(self.held.tables());
        self.kv.check_invariants(in_use);
        self.held.check_invariants();
        assert_eq!(live().count(), self.by_id.len(), "every sequence has an id");
        let deferred = self.deferred.len() + self.fetched.len();
        let queued = self.arrived.len() + self.pending.len() + self.running.len() + deferred;
        assert_eq!(queued, self.by_id.len(), "every sequence stands in one queue");
        let at = |place| live().filter(|s| s.place == place).count();
        assert_eq!(at(QueuePlace::Pending), self.pending.len(), "pending");
        assert_eq!(at(QueuePlace::Running), self.running.len(), "running");
        assert_eq!(at(QueuePlace::Deferred), self.deferred.len(), "deferred");
        assert_eq!(at(QueuePlace::Fetched), self.fetched.len(), "fetched");
        assert!(self.running.len() <= self.config.max_num_seqs as usize, "max_num_seqs");
        for sequence in live() {
            let held = sequence.table.len() * crate::BLOCK_TOKENS;
            assert!(sequence.computed <= held, "computed tokens are held");
            assert!(sequence.generated <= sequence.limit, "no reply beyond its limit");
            if matches!(sequence.place, QueuePlace::Arrived | QueuePlace::Pending) {
                assert!(sequence.table.is_empty(), "only admitted sequences have KV");
            }
        }
        let steps = self.step.is_some() || !self.later.is_empty();
        assert!(steps || self.running.is_empty(), "a batch is in a step");
        let later = self.later.iter().flat_map(|(_, batch)| batch);
        for (slot, _) in self.batch.iter().chain(later) {
            assert!(self.running.contains(slot), "a step computes running sequences");
        }
    }

    fn has_work(&self) -> bool {
        let pending = !self.stalled && !self.pending.is_empty();
        pending || !self.arrived.is_empty() || !self.fetched.is_empty()
    }

    /// Runs all steps that end before `now`, and with `inclusive` all events at `now` too: while
    /// inputs of that instant may still arrive, no schedule of that instant is made.
    fn advance(&mut self, now: Time, inclusive: bool) {
        let due = |at: Time| at < now || (inclusive && at == now);
        while let Some(at) = self.poll_timeout().filter(|at| due(*at)) {
            if self.held.next_expiry() == Some(at) {
                self.expire(at);
                continue;
            }
            self.complete(at);
            self.begin(at);
        }
    }

    fn submit(&mut self, now: Time, s: Submission, leg: Leg) {
        if let Some(why) = self.refusal(&s) {
            self.counters.refused += 1;
            self.outputs.push_back(Output::Refused { id: s.id, at: now, why });
            return;
        }
        let room = self.config.max_model_len - s.prompt_tokens;
        let cap = s.max_tokens.min(room);
        let sequence = Sequence {
            id: s.id,
            place: QueuePlace::Arrived,
            leg,
            prompt: s.prompt_tokens,
            limit: s.reply_tokens.min(cap),
            ending: if s.reply_tokens <= cap { StopReason::Stop } else { StopReason::Length },
            generated: 0,
            computed: 0,
            flying: 0,
            hashes: s.blocks,
            table: self.tables.pop().unwrap_or_default(),
            arrived: now,
            pending_since: now,
            admitted: None,
            first_token: None,
            cached: 0,
            preemptions: 0,
        };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.by_id.insert(sequence.id.0, slot);
        self.slots[slot as usize] = Some(sequence);
        self.arrived.push_back(slot);
        self.wake = self.wake.max(now);
        self.cut(now);
    }

    fn refusal(&self, s: &Submission) -> Option<Refusal> {
        let waiting = (self.arrived.len() + self.pending.len()) as u32;
        if self.by_id.contains_key(&s.id.0) || self.held.contains(s.id) {
            return Some(Refusal::DuplicateId);
        }
        if s.prompt_tokens == 0 || s.reply_tokens == 0 || s.max_tokens == 0 {
            return Some(Refusal::Empty);
        }
        if s.prompt_tokens >= self.config.max_model_len {
            let (prompt_tokens, max_model_len) = (s.prompt_tokens, self.config.max_model_len);
            return Some(Refusal::TooLong { prompt_tokens, max_model_len });
        }
        (waiting >= self.config.max_pending).then_some(Refusal::Full { pending: waiting })
    }

    /// Removes an aborted request at once. The current step takes as long as it would have.
    fn abort(&mut self, now: Time, id: RequestId) {
        let Some(&slot) = self.by_id.get(&id.0) else { return };
        match self.sequence(slot).place {
            QueuePlace::Arrived => self.arrived.retain(|s| *s != slot),
            QueuePlace::Pending => self.pending.retain(|s| *s != slot),
            QueuePlace::Deferred | QueuePlace::Fetched => {
                self.cut(now);
                self.undefer(slot);
            }
            QueuePlace::Running => {
                self.cut(now);
                self.credit(now, slot);
                self.running.retain(|s| *s != slot);
                let later = self.later.iter_mut().map(|(_, batch)| batch);
                later.chain([&mut self.batch]).for_each(|batch| batch.retain(|(s, _)| *s != slot));
            }
        }
        self.retire(now, slot, StopReason::Abort);
    }

    /// Ends a sequence that is no longer in any queue.
    fn retire(&mut self, at: Time, slot: u32, why: StopReason) {
        let mut sequence =
            self.slots[slot as usize].take().expect("a slot in use holds its sequence");
        self.by_id.remove(&sequence.id.0);
        self.vacant.push(slot);
        self.hold(at, &mut sequence, why);
        self.kv.release(&mut sequence.table);
        self.freed(at);
        match why {
            StopReason::Stop => self.counters.finished_stop += 1,
            StopReason::Length => self.counters.finished_length += 1,
            StopReason::Abort => self.counters.finished_abort += 1,
            StopReason::Error => self.counters.finished_error += 1,
        }
        let (usage, timings) = (sequence.usage(), sequence.timings(at));
        self.outputs.push_back(Output::Finished { id: sequence.id, at, why, usage, timings });
        self.tables.push(sequence.table);
    }

    fn sequence(&self, slot: u32) -> &Sequence {
        self.slots[slot as usize].as_ref().expect("a queue names slots in use")
    }

    fn sequence_mut(&mut self, slot: u32) -> &mut Sequence {
        self.slots[slot as usize].as_mut().expect("a queue names slots in use")
    }

    /// The factor on the next step's time.
    fn factor(&mut self) -> f64 {
        let jitter = match self.config.jitter {
            0.0 => 1.0,
            cv => self.rng.lognormal(1.0, cv),
        };
        jitter * self.slow
    }
}
