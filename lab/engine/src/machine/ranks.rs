//! Engines that step together: data-parallel ranks that share the experts of a model.
//!
//! Each rank is a separate engine with its own queue, KV, prefix cache and scheduler. But all ranks
//! synchronise in every layer with experts, so none ends a step before the others, and an idle one
//! waits while another computes. A long prompt on one rank delays all.
//!
//! A request goes to one rank when it arrives and stays there. The rule is vLLM's
//! (`DPLBAsyncMPClient`): the least of four times its pending plus its running requests, the first
//! on a tie, by the counts that were published last ([`counts`]); requests sent since then count as
//! pending.
//!
//! It has no strides ([`Config::decode_stride`] counts as 1), since each rank has its own arrivals
//! and ends.

mod counts;
#[cfg(test)]
mod tests;

use super::Engine;
use crate::config::{Config, ConfigError};
use crate::cost::Work;
use crate::input::{Input, Submission};
use crate::leg::Leg;
use crate::output::Output;
use crate::together::Together;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use counts::Counts;
use meridian_base::{RequestId, Time};

/// Engines that schedule separately and step together. The methods are those of [`Engine`].
#[derive(Clone, Debug)]
pub struct Ranks {
    engines: Vec<Engine>,
    together: Together,
    counts: Counts,
    /// Requests that each rank's last schedule left pending. Later arrivals are considered in the
    /// rank's next one.
    left: Vec<u32>,
    /// When idle ranks may schedule next.
    wake: Time,
    outputs: VecDeque<Output>,
}

/// A pending request counts as much as this many running ones.
const PENDING_WEIGHT: u32 = 4;

impl Ranks {
    /// Idle engines with these settings each, whose step times follow `together`. `seed` matters
    /// only with [`Config::jitter`].
    ///
    /// # Errors
    ///
    /// When the settings are not consistent.
    pub fn new(config: Config, together: Together, seed: u64) -> Result<Ranks, ConfigError> {
        let engine = Engine::new(Config { decode_stride: 1, ..config }, seed)?;
        let count = together.ranks() as usize;
        Ok(Ranks {
            engines: alloc::vec![engine; count],
            together,
            counts: Counts::new(count),
            left: alloc::vec![0; count],
            wake: Time::ZERO,
            outputs: VecDeque::new(),
        })
    }

    /// Takes an input that happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.advance(now, false);
        match input {
            Input::Submit(submission) => self.submit(now, submission, Leg::Whole),
            Input::SubmitLeg(submission, leg) => self.submit(now, submission, leg),
            // Ranks that do not know the request ignore it.
            Input::Abort(id) => self.engines.iter_mut().for_each(|rank| rank.abort(now, id)),
            Input::Fetched(id) => self.engines.iter_mut().for_each(|rank| rank.fetched(now, id)),
            Input::FetchFailed { id, recompute } => {
                self.engines.iter_mut().for_each(|rank| rank.fetch_failed(now, id, recompute));
            }
            Input::Renew { id, lease } => {
                self.engines.iter_mut().for_each(|rank| rank.held.renew(id, now + lease));
            }
            Input::Release(id) => self.release(now, id),
        }
        self.rouse(now);
        self.collect();
    }

    /// Returns the next output, in order of `at`.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due, if no input arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let step = self.step_due();
        match (step, self.next_expiry()) {
            (Some(step), Some(expiry)) => Some(step.min(expiry)),
            (step, expiry) => step.or(expiry),
        }
    }

    /// Does all that is due at or before `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now, true);
    }

    /// The engines, for inspection.
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

    /// When the current step ends.
    fn ends(&self) -> Option<Time> {
        self.engines[0].step.map(|step| step.ends)
    }

    /// When the current step ends, or idle ranks with work may start one.
    fn step_due(&self) -> Option<Time> {
        let idle = || self.engines.iter().any(Engine::has_work).then_some(self.wake);
        self.ends().or_else(idle)
    }

    fn next_expiry(&self) -> Option<Time> {
        self.engines.iter().filter_map(|rank| rank.held.next_expiry()).min()
    }

    /// Ranks that were idle until now start no step in the past.
    fn rouse(&mut self, now: Time) {
        if self.ends().is_none() {
            self.wake = self.wake.max(now);
        }
    }

    /// The rank that holds the blocks releases them; if there is none, the first counts the call.
    fn release(&mut self, now: Time, id: RequestId) {
        let holds = |rank: &Engine| rank.held.contains(id);
        let at = self.engines.iter().position(holds).unwrap_or(0);
        self.engines[at].release(now, id);
    }

    fn submit(&mut self, now: Time, submission: Submission, leg: Leg) {
        let id = submission.id;
        let known = |rank: &Engine| rank.by_id.contains_key(&id.0) || rank.held.contains(id);
        // A rank refuses a request that it already has.
        let at = self.engines.iter().position(known).unwrap_or_else(|| self.choose(now));
        self.engines[at].submit(now, submission, leg);
    }

    /// The rank of the next request, which is counted as pending there.
    fn choose(&mut self, now: Time) -> usize {
        let shown = self.counts.shown(now);
        let score = |at: &usize| {
            let [pending, running] = shown[*at];
            pending * PENDING_WEIGHT + running
        };
        let at = (0..shown.len()).min_by_key(score).unwrap_or(0);
        shown[at][0] += 1;
        at
    }

    /// As the engine's: with `inclusive` all events at `now`, otherwise those before.
    fn advance(&mut self, now: Time, inclusive: bool) {
        while let Some(at) = self.poll_timeout() {
            if at > now || (at == now && !inclusive) {
                return;
            }
            if self.next_expiry() == Some(at) {
                self.engines.iter_mut().for_each(|rank| rank.expire(at));
                self.rouse(at);
                self.collect();
                continue;
            }
            self.engines.iter_mut().for_each(|rank| rank.complete(at));
            let running = self.engines.iter().map(|rank| rank.running.len() as u32);
            let loads = self.left.iter().zip(running).map(|(left, running)| [*left, running]);
            self.counts.tell(at, loads);
            self.begin(at);
            self.collect();
        }
    }

    /// Runs each rank's schedule, and starts the step of all if any has work.
    fn begin(&mut self, now: Time) {
        for (rank, left) in self.engines.iter_mut().zip(&mut self.left) {
            rank.decide(now);
            *left = rank.pending.len() as u32;
        }
        if self.engines.iter().all(|rank| rank.batch.is_empty()) {
            self.rouse(now);
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

    fn collect(&mut self) {
        for rank in &mut self.engines {
            self.outputs.append(&mut rank.outputs);
        }
    }
}
