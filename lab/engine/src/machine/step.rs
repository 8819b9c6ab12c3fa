//! The current step, and the effects of its end.

use super::Engine;
use crate::config::TokenOutputs;
use crate::output::Output;
use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// A step, or several equal decode steps taken as one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) started: Time,
    /// Time of each.
    pub(super) one: Duration,
    pub(super) repeats: u32,
    /// The part of it that prefill added.
    pub(super) prefill: Duration,
    /// When the first stage of a pipeline is free again; without stages, the end.
    pub(super) leaves: Time,
    pub(super) ends: Time,
}

impl Engine {
    /// Shortens an event of several decode steps to the one that is running at `now`, so that a new
    /// arrival is considered at the next step's start, as if steps ran one by one.
    pub(super) fn cut(&mut self, now: Time) {
        let Some(step) = self.step.as_mut().filter(|step| step.repeats > 1) else { return };
        let ran = now.since(step.started).as_nanos().div_ceil(step.one.as_nanos());
        let ran = u32::try_from(ran).unwrap_or(u32::MAX).clamp(1, step.repeats);
        step.repeats = ran;
        step.ends = step.started + step.one * ran;
        step.leaves = step.ends;
    }

    /// Credits a sequence that is about to be aborted with the tokens of the decode steps that have
    /// ended within the current event, which is cut already. They are reported now, all at once.
    pub(super) fn credit(&mut self, at: Time, slot: u32) {
        let Some(step) = &self.step else { return };
        let done = step.repeats - 1;
        if done == 0 || !self.batch.iter().any(|(scheduled, _)| *scheduled == slot) {
            return;
        }
        let report_all = self.config.token_outputs == TokenOutputs::Each;
        let s = self.slots[slot as usize].as_mut().expect("a step computes slots in use");
        s.computed += done;
        s.generated += done;
        let (id, total) = (s.id, s.generated);
        self.counters.reply_tokens += u64::from(done);
        if report_all {
            self.outputs.push_back(Output::Tokens { id, at, total, new: done });
        }
    }

    /// Ends the steps that are through: tokens are reported, and some requests end. A step that is
    /// not leaves the first stage to the next one.
    pub(super) fn complete(&mut self, now: Time) {
        while self.later.front().is_some_and(|(step, _)| step.ends <= now) {
            let ended = self.later.pop_front().map(|(step, batch)| self.end(now, step, batch));
            self.spare(ended);
        }
        let Some(step) = self.step.take_if(|step| step.leaves <= now) else { return };
        let batch = core::mem::take(&mut self.batch);
        if step.ends > now {
            self.later.push_back((step, batch));
        } else {
            self.batch = self.end(now, step, batch);
        }
    }

    /// Keeps an empty batch to reuse its memory.
    fn spare(&mut self, batch: Option<Vec<(u32, u32)>>) {
        if self.batch.capacity() == 0 {
            self.batch = batch.unwrap_or_default();
        }
    }

    fn end(&mut self, now: Time, step: Step, mut batch: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        self.counters.steps += u64::from(step.repeats);
        self.counters.step_time += step.one * step.repeats;
        self.counters.prefill_time += step.prefill;
        for (slot, new) in batch.drain(..) {
            self.advance_sequence(now, slot, new, step.repeats);
        }
        let slots = &self.slots;
        self.running.retain(|slot| slots[*slot as usize].is_some());
        batch
    }

    /// Advances a sequence by `new` computed tokens in each of some steps. With its last tokens
    /// computed it generates as many as it took decode steps, and one at the end of its prompt.
    fn advance_sequence(&mut self, now: Time, slot: u32, new: u32, repeats: u32) {
        let report_all = self.config.token_outputs == TokenOutputs::Each;
        let s = self.slots[slot as usize].as_mut().expect("a step computes slots in use");
        let generated = if s.is_decoding() { new * repeats } else { 1 };
        s.computed += new * repeats;
        s.flying -= new;
        if s.computed < s.tokens() {
            return;
        }
        s.generated += generated;
        let first = s.first_token.is_none();
        s.first_token.get_or_insert(now);
        let (id, total, ended, ending) = (s.id, s.generated, s.generated >= s.limit, s.ending);
        let filled = s.computed / crate::BLOCK_TOKENS;
        self.kv_name(slot, filled);
        self.counters.reply_tokens += u64::from(generated);
        if first || report_all {
            self.outputs.push_back(Output::Tokens { id, at: now, total, new: generated });
        }
        if ended {
            self.retire(now, slot, ending);
        }
    }
}
