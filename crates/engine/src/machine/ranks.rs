//! Engines that step together: data-parallel ranks that share the experts of a model.
//!
//! Each rank is an engine of its own, with its own queue, KV and prefix cache, and decides for itself. But
//! in every layer with experts all of them meet, so none ends a step before the others, and one without
//! work computes nothing for as long as another computes. A long prompt on one rank holds up all.
//!
//! A request goes to one rank when it arrives and stays there. The rule is vLLM's (`DPLBAsyncMPClient`):
//! the least of four times its pending plus its running requests, the first of equals, by counts that are
//! published at most every 100 ms; what was sent since is counted as pending.
//!
//! It has no strides ([`Config::decode_stride`] is taken as 1), since ranks have arrivals and ends of their
//! own. How long the counts are under way, it does not know.

#[cfg(test)]
mod tests;

use super::Engine;
use crate::config::{Config, ConfigError};
use crate::cost::Work;
use crate::input::{Input, Submission};
use crate::output::Output;
use crate::together::Together;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// Engines that decide for themselves and step together. Its methods are those of [`Engine`].
#[derive(Clone, Debug)]
pub struct Ranks {
    engines: Vec<Engine>,
    together: Together,
    /// What the chooser knows of each rank: pending and running.
    shown: Vec<[u32; 2]>,
    /// When it is told again.
    publishes: Time,
    /// When idle ranks may take their next decision.
    wake: Time,
    outputs: VecDeque<Output>,
}

/// Between two publications of the counts.
const PUBLISHED_EVERY: Duration = Duration::from_millis(100);

/// A pending request counts as much as so many running ones.
const PENDING_WEIGHT: u32 = 4;

impl Ranks {
    /// Idle engines with these settings each, whose steps take what `together` says. `seed` matters only
    /// with [`Config::jitter`].
    ///
    /// # Errors
    /// When the settings do not go together.
    pub fn new(config: Config, together: Together, seed: u64) -> Result<Ranks, ConfigError> {
        let engine = Engine::new(Config { decode_stride: 1, ..config }, seed)?;
        let count = together.ranks() as usize;
        Ok(Ranks {
            engines: alloc::vec![engine; count],
            together,
            shown: alloc::vec![[0, 0]; count],
            publishes: Time::ZERO,
            wake: Time::ZERO,
            outputs: VecDeque::new(),
        })
    }

    /// Takes an input that happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.advance(now, false);
        match input {
            Input::Submit(submission) => self.submit(now, submission),
            // Ranks that do not know the request ignore it.
            Input::Abort(id) => self.engines.iter_mut().for_each(|rank| rank.abort(now, id)),
        }
        self.collect();
    }

    /// Gives the next output, in order of `at`.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, if nothing is handed in before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let idle = || self.engines.iter().any(Engine::has_work).then_some(self.wake);
        self.ends().or_else(idle)
    }

    /// Does all that is due at or before `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now, true);
    }

    /// The engines, to look at.
    #[must_use]
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// Checks the whole state, in time proportional to its size.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        self.engines.iter().for_each(Engine::check_invariants);
        let ends = |rank: &Engine| rank.step.map(|step| step.ends);
        assert!(self.engines.iter().all(|rank| ends(rank) == self.ends()), "all step together");
        assert!(self.engines.iter().all(|rank| rank.outputs.is_empty()), "outputs are collected");
    }

    /// When the step under way ends.
    fn ends(&self) -> Option<Time> {
        self.engines[0].step.map(|step| step.ends)
    }

    fn submit(&mut self, now: Time, submission: Submission) {
        let known = |rank: &Engine| rank.by_id.contains_key(&submission.id.0);
        // A rank refuses what it has already.
        let at = self.engines.iter().position(known).unwrap_or_else(|| self.choose());
        self.wake = self.wake.max(now);
        self.engines[at].submit(now, submission);
    }

    /// The rank of the next request, which is counted as pending there.
    fn choose(&mut self) -> usize {
        let score = |at: &usize| {
            let [pending, running] = self.shown[*at];
            pending * PENDING_WEIGHT + running
        };
        let at = (0..self.shown.len()).min_by_key(score).unwrap_or(0);
        self.shown[at][0] += 1;
        at
    }

    /// As the engine's: with `inclusive` all that happens at `now`, else what happens before.
    fn advance(&mut self, now: Time, inclusive: bool) {
        while let Some(at) = self.poll_timeout() {
            if at > now || (at == now && !inclusive) {
                return;
            }
            self.engines.iter_mut().for_each(|rank| rank.complete(at));
            self.begin(at);
            self.collect();
        }
    }

    /// Lets each rank decide, and starts the step of all if any has work.
    fn begin(&mut self, now: Time) {
        self.engines.iter_mut().for_each(|rank| rank.decide(now));
        self.publish(now);
        if self.engines.iter().all(|rank| rank.batch.is_empty()) {
            return;
        }
        let works: Vec<[Work; 2]> = self.engines.iter().map(Engine::work).collect();
        let all: Vec<Work> = works.iter().map(|[all, _]| *all).collect();
        let decodes: Vec<Work> = works.iter().map(|[_, decodes]| *decodes).collect();
        let some = decodes.iter().any(|rank| rank.sequences > 0.0);
        let alone = if some { self.together.seconds(&decodes) } else { 0.0 };
        let alone = all.iter().any(|rank| rank.prompts > 0.0).then_some(alone);
        let step = self.engines[0].timed(now, self.together.seconds(&all), alone, 1);
        self.engines.iter_mut().for_each(|rank| rank.step = Some(step));
    }

    /// Shows the counts, which decisions alone change, if it is time.
    fn publish(&mut self, now: Time) {
        if now < self.publishes {
            return;
        }
        self.publishes = now + PUBLISHED_EVERY;
        for (shown, rank) in self.shown.iter_mut().zip(&self.engines) {
            *shown = [rank.pending.len() as u32, rank.running.len() as u32];
        }
    }

    fn collect(&mut self) {
        for rank in &mut self.engines {
            self.outputs.append(&mut rank.outputs);
        }
    }
}
