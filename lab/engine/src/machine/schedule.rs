//! The schedule at the start of a step: which sequences advance, by how many tokens.
//!
//! vLLM v1's rule. There is no prefill phase and no decode phase; every sequence has tokens and
//! computed tokens, and a step closes the gap within a budget. Sequences in the batch come first,
//! in order of admission: a decode needs one token, a partly computed prompt as many as the budget
//! leaves. Then pending ones are admitted in order of arrival while budget, sequence slots and KV
//! last. A long prompt therefore takes several steps, and slows concurrent decodes without stopping
//! them (chunked prefill; Sarathi-Serve, OSDI'24).
//!
//! An engine that schedules ahead ([`Schedule::Ahead`]) does the same one step earlier, during the
//! previous step. The next work of the sequences in the batch follows from their current work, so
//! only admission differs: a sequence admitted when a step starts is computed from the next one on.
//!
//! SGLang's rule ([`Schedule::PromptsFirst`]) is the older one: whenever a prompt can be computed,
//! a step computes only prompts and the decodes wait, so TTFT is low and ITL has outliers.
//!
//! KV is allocated as sequences grow, not reserved for replies of unknown length. When it runs out
//! the latest sequence is preempted and recomputed later (recompute preemption). Admission requires
//! free KV for the whole prompt, though only the first chunk is allocated, so that one long prompt
//! is not admitted into a full cache only to be preempted again.

use super::{Engine, Step};
use crate::config::Schedule;
use crate::cost::Work;
use crate::kv::blocks_for;
use crate::leg::Leg;
use crate::output::Output;
use crate::sequence::{QueuePlace, Sequence};
use meridian_base::{Duration, Time};

impl Engine {
    /// Schedules and starts the next step, if there is anything to compute.
    pub(super) fn begin(&mut self, now: Time) {
        if self.step.is_some() {
            return;
        }
        if !self.has_room() {
            self.wake = self.wake.max(now);
            return;
        }
        self.decide(now);
        if !self.batch.is_empty() {
            self.start_step(now);
        }
    }

    /// Fills the batch of the next step, which stays empty if there is nothing to compute.
    pub(super) fn decide(&mut self, now: Time) {
        assert!(self.step.is_none() && self.batch.is_empty(), "one step is decided at a time");
        while let Some(slot) = self.arrived.pop_front() {
            self.sequence_mut(slot).place = QueuePlace::Pending;
            self.pending.push_back(slot);
        }
        let mut budget = self.config.max_num_batched_tokens;
        match self.config.schedule {
            Schedule::Mixed => {
                if !self.advance_running(now, &mut budget, |_| true) {
                    self.admit_pending(now, &mut budget);
                }
            }
            Schedule::Ahead => self.ahead(now, &mut budget),
            Schedule::PromptsFirst => self.prompts_first(now, &mut budget),
        }
        if self.batch.is_empty() {
            let idle = self.later.is_empty();
            assert!(!idle || self.running.is_empty(), "an idle engine has an empty batch");
            let legs = self.deferred.len() + self.fetched.len() + self.held.len() as usize;
            assert!(!idle || legs > 0 || self.pending.is_empty(), "an idle engine has room");
            self.wake = self.wake.max(now);
        }
        self.stalled = self.batch.is_empty();
    }

    /// The rule of an engine that schedules ahead: this step runs the batch as it is, and pending
    /// sequences are admitted to the next. An idle engine has no current step, and starts at once.
    fn ahead(&mut self, now: Time, budget: &mut u32) {
        if self.advance_running(now, budget, |_| true) {
            return;
        }
        if self.batch.is_empty() {
            self.admit_pending(now, budget);
            return;
        }
        // A sequence that shares a prefix with one admitted at the same instant does not find it
        // yet.
        let none = self.pending.is_empty() && self.fetched.is_empty();
        let mut left = if none { 0 } else { self.left_next() };
        while let Some((_, new)) = self.admit_one(now, left) {
            left -= new;
        }
    }

    /// The part of the next step's budget that the sequences in the batch leave. The batch is in
    /// their order.
    fn left_next(&self) -> u32 {
        let scheduled = self.batch.iter().map(|(_, new)| *new).chain(core::iter::repeat(0));
        let needs = self.running.iter().zip(scheduled).map(|(slot, new)| {
            let s = self.sequence(*slot);
            let left = s.tokens() - s.computed - new;
            if left > 0 { left } else { u32::from(s.generated + 1 < s.limit) }
        });
        let needed = needs.fold(0_u32, u32::saturating_add);
        self.config.max_num_batched_tokens.saturating_sub(needed)
    }

    /// SGLang's rule: prompts in progress, then pending ones; decodes only when there is neither.
    fn prompts_first(&mut self, now: Time, budget: &mut u32) {
        let preempted = self.advance_running(now, budget, |s| !s.is_decoding());
        if !preempted {
            self.admit_pending(now, budget);
        }
        if self.batch.is_empty() {
            self.advance_running(now, budget, |_| true);
        }
    }

    /// Gives each running sequence that `takes` its tokens. Returns whether any was preempted.
    fn advance_running(
        &mut self,
        now: Time,
        budget: &mut u32,
        takes: impl Fn(&Sequence) -> bool,
    ) -> bool {
        let mut preempted = false;
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let slot = self.running[index];
            let s = self.sequence(slot);
            let new = s.left().min(*budget);
            // In a pipeline its last tokens may be in a later stage.
            if new == 0 || !takes(s) {
                index += 1;
                continue;
            }
            while !self.take_blocks(slot, new) {
                preempted = true;
                // In a pipeline all may be in some step; then this one waits until blocks are free.
                if self.preempt_latest(now, slot).is_none_or(|latest| latest == slot) {
                    return true;
                }
            }
            self.schedule(slot, new);
            *budget -= new;
            index += 1;
        }
        preempted
    }

    /// Admits from pending, in order, until something runs out.
    fn admit_pending(&mut self, now: Time, budget: &mut u32) {
        while let Some((slot, new)) = self.admit_one(now, *budget) {
            self.schedule(slot, new);
            *budget -= new;
        }
    }

    /// Admits the first pending sequence with the blocks for as many tokens as the budget allows,
    /// unless a resource has run out. Returns the sequence and its tokens.
    fn admit_one(&mut self, now: Time, budget: u32) -> Option<(u32, u32)> {
        if budget == 0 || self.running.len() >= self.config.max_num_seqs as usize {
            return None;
        }
        if let Some(slot) = self.fetched.pop_front() {
            return Some((slot, self.admit_fetched(now, slot)));
        }
        let (slot, cached) = loop {
            let &slot = self.pending.front()?;
            let cached = self.take_prefix(slot)?;
            self.pending.pop_front();
            if self.sequence(slot).leg != Leg::Decode {
                break (slot, cached);
            }
            self.defer(now, slot, cached);
        };
        self.running.push(slot);
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        s.place = QueuePlace::Running;
        s.computed = cached;
        let new = (s.tokens() - cached).min(budget);
        let waited = now.since(s.pending_since);
        self.outputs.push_back(Output::Admitted {
            id: s.id,
            at: now,
            waited,
            cached_tokens: cached,
        });
        if s.admitted.is_none() {
            s.admitted = Some(now);
            s.cached = cached;
            self.counters.prompt_tokens += u64::from(s.prompt);
            self.counters.prefix_queries += u64::from(s.prompt);
            self.counters.prefix_hits += u64::from(cached);
        }
        let taken = self.take_blocks(slot, new);
        assert!(taken, "take_prefix made sure that the whole prompt fits");
        Some((slot, new))
    }

    /// References the cached prefix of a pending sequence, if the rest of it fits too. Returns the
    /// cached tokens.
    fn take_prefix(&mut self, slot: u32) -> Option<u32> {
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        let (needed, reusable) = (blocks_for(s.tokens()), s.reusable_blocks());
        let shared = self.kv.share(&s.hashes[..reusable], needed, &mut s.table)?;
        Some(shared * crate::BLOCK_TOKENS)
    }

    /// Allocates the blocks for `new` more tokens; false if there are too few.
    fn take_blocks(&mut self, slot: u32, new: u32) -> bool {
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        self.kv.grow(&mut s.table, blocks_for(s.computed + s.flying + new))
    }

    /// Adds a sequence to the step. The blocks of its prompt that the step fills can be matched
    /// from now on: a sibling in the same step reads them after they are written.
    fn schedule(&mut self, slot: u32, new: u32) {
        self.batch.push((slot, new));
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        s.flying += new;
        if !s.is_decoding() {
            let filled = (s.computed + s.flying) / crate::BLOCK_TOKENS;
            self.kv_name(slot, filled);
        }
    }

    /// Names the blocks of a sequence up to `filled`, as far as hashes are known.
    pub(super) fn kv_name(&mut self, slot: u32, filled: u32) {
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        let until = filled.min(s.hashes.len() as u32);
        self.kv.name(&mut s.table, &s.hashes, until);
    }

    /// Preempts the latest sequence that is in no step, and returns it; none if all are in one.
    fn preempt_latest(&mut self, now: Time, by: u32) -> Option<u32> {
        let rests = |slot: &u32| self.sequence(*slot).flying == 0;
        let at = self.running.iter().rposition(rests)?;
        let slot = self.running.remove(at);
        let by_sequence = self.sequence(by);
        let held = by_sequence.table.len();
        let needed = blocks_for(by_sequence.tokens()).saturating_sub(held);
        let short_blocks = needed.saturating_sub(self.kv.total() - self.kv.referenced());
        let by = by_sequence.id;
        let s = self.slots[slot as usize].as_mut().expect("a queue names slots in use");
        self.kv.release(&mut s.table);
        s.place = QueuePlace::Pending;
        s.computed = 0;
        s.preemptions += 1;
        s.pending_since = now;
        self.outputs.push_back(Output::Preempted { id: s.id, at: now, by, short_blocks });
        self.counters.preemptions += 1;
        self.pending.push_front(slot);
        Some(slot)
    }

    /// The work of the batch, and of its decodes alone.
    pub(super) fn work(&self) -> [Work; 2] {
        let (mut work, mut decodes) = (Work::default(), Work::default());
        for &(slot, new) in &self.batch {
            let s = self.sequence(slot);
            if s.is_decoding() {
                work.decode(s.tokens());
                decodes.decode(s.tokens());
            } else {
                work.prefill(s.computed + s.flying - new, new);
            }
        }
        [work, decodes]
    }

    /// Times the step and sets its end.
    fn start_step(&mut self, now: Time) {
        let [mut work, decodes] = self.work();
        let repeats = if work.prompts == 0.0 { self.stride() } else { 1 };
        // The context of each decode grows by one per step; the mean stands for all of them.
        work.context += work.sequences * f64::from(repeats - 1) / 2.0;
        if self.pipeline.is_some() {
            self.step = self.piped(now, &work, &decodes);
            return;
        }
        let terms = self.config.profile.terms;
        let alone = if decodes.sequences > 0.0 { terms.seconds(&decodes) } else { 0.0 };
        let alone = (work.prompts > 0.0).then_some(alone);
        self.step = Some(self.timed(now, terms.seconds(&work), alone, repeats));
    }

    /// Starts a step of this many seconds; with prompts in it, the decodes alone would take
    /// `alone`.
    pub(super) fn timed(
        &mut self,
        now: Time,
        seconds: f64,
        alone: Option<f64>,
        repeats: u32,
    ) -> Step {
        let one = crate::cost::duration(seconds * self.factor());
        let prefill = alone.map_or(0.0, |alone| 1.0 - alone / seconds);
        let prefill = Duration::from_nanos((one.as_nanos() as f64 * prefill) as u64);
        let ends = now + one * repeats;
        Step { started: now, one, repeats, prefill, leaves: ends, ends }
    }

    /// How many decode steps can be one event: no request could be admitted, none ends, and KV
    /// lasts.
    ///
    /// A request that is pending after a schedule with spare budget and slots waits for KV. KV is
    /// freed only when a request ends, is preempted or is aborted, which all end the event.
    fn stride(&mut self) -> u32 {
        let most = self.config.decode_stride;
        let spent = self.batch.len() >= self.config.max_num_batched_tokens as usize;
        let could_come = spent && !(self.pending.is_empty() && self.fetched.is_empty());
        if most == 1 || could_come || self.batch.len() < self.running.len() {
            return 1;
        }
        let left = |slot: &u32| self.sequence(*slot).limit - self.sequence(*slot).generated;
        let shortest = self.running.iter().map(left).min().unwrap_or(1);
        let stride = shortest.min(most).max(1);
        let blocks = |slot: &u32| {
            let s = self.sequence(*slot);
            blocks_for(s.computed + stride).saturating_sub(s.table.len())
        };
        let needed: u32 = self.running.iter().map(blocks).sum();
        if stride == 1 || needed > self.kv.total() - self.kv.referenced() {
            return 1;
        }
        for index in 0..self.batch.len() {
            let (slot, _) = self.batch[index];
            // The first of them is scheduled.
            let taken = self.take_blocks(slot, stride - 1);
            assert!(taken, "counted above");
        }
        stride
    }
}
