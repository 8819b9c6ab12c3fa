//! The current step, and the effects of its end.

use super::Engine;
use crate::config::TokenOutputs;
use crate::output::Output;
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

    /// Ends the current step: tokens are reported, and some requests end.
    pub(super) fn complete(&mut self, now: Time) {
        let Some(step) = self.step.take() else { return };
        self.counters.steps += u64::from(step.repeats);
        self.counters.step_time += step.one * step.repeats;
        self.counters.prefill_time += step.prefill;
        let mut batch = core::mem::take(&mut self.batch);
        for (slot, new) in batch.drain(..) {
            self.advance_sequence(now, slot, new * step.repeats);
        }
        self.batch = batch;
        let slots = &self.slots;
        self.running.retain(|slot| slots[*slot as usize].is_some());
    }

    /// Advances a sequence by `new` computed tokens. With its last tokens computed it generates as
    /// many as it took decode steps, and one at the end of its prompt.
    fn advance_sequence(&mut self, now: Time, slot: u32, new: u32) {
        let report_all = self.config.token_outputs == TokenOutputs::Each;
        let s = self.slots[slot as usize].as_mut().expect("a step computes slots in use");
        let generated = if s.is_decoding() { new } else { 1 };
        s.computed += new;
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
