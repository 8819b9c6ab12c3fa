//! Aggregated instances: engines that prefill and decode, with chunked prefill as in vLLM.
//!
//! A step has a budget of tokens. Requests in the batch come first, in order of admission: one token
//! for a reply, and for a prompt as many as the budget leaves. Then waiting ones are admitted while
//! budget, seats and KV suffice. A pipeline has as many lanes as stages, and a request stays in its
//! lane. When KV runs out, the newest request in the lane loses its own and recomputes it. Ranks that
//! share experts have a budget each and step together.

use std::collections::VecDeque;

use meridian_engine::Work;

use super::setup::{Aggregated, Request};
use super::stage::Stages;

/// A request in a batch, or on its way there.
#[derive(Clone, Copy, Debug, Default)]
struct One {
    request: usize,
    /// Its rank, if ranks share experts.
    rank: usize,
    /// Tokens with KV, and tokens generated.
    computed: u32,
    done: u32,
    /// Tokens in the current step.
    taken: u32,
}

/// An instance while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Mixed {
    waiting: VecDeque<One>,
    lanes: Vec<Lane>,
    pub(super) stages: Stages,
    /// Requests that have not ended.
    pub(super) outstanding: usize,
    /// Tokens of KV.
    held: u64,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    running: Vec<One>,
    busy: bool,
}

/// The instance with the fewest requests for its weight.
pub(super) fn least(all: &[Mixed], setup: &[Aggregated]) -> usize {
    let load = |at: &usize| (all[*at].outstanding as f64 + 1.0) / setup[*at].engine.weight;
    (0..all.len()).min_by(|a, b| load(a).total_cmp(&load(b))).expect("a fleet has an instance")
}

impl Mixed {
    pub(super) fn new(setup: &Aggregated) -> Mixed {
        let count = setup.engine.stages.len();
        let (lanes, stages) = (vec![Lane::default(); count], Stages::new(count));
        Mixed { lanes, stages, ..Mixed::default() }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn arrive(&mut self, request: usize) {
        self.outstanding += 1;
        self.waiting.push_back(One { request, ..One::default() });
    }

    /// The next step of a lane; `None` if it is busy or has nothing to do.
    pub(super) fn step(
        &mut self,
        lane: usize,
        setup: &Aggregated,
        requests: &[Request],
    ) -> Option<Work> {
        if self.lanes[lane].busy {
            return None;
        }
        let mut budgets = vec![setup.budget; setup.engine.together.max(1)];
        self.advance(lane, setup, requests, &mut budgets);
        self.admit(lane, setup, requests, &mut budgets);
        let mut work = Work::default();
        for one in self.lanes[lane].running.iter().filter(|one| one.taken > 0) {
            match one.done > 0 && one.taken == 1 {
                true => work.decode(one.computed + 1),
                false => work.prefill(one.computed, one.taken),
            }
        }
        self.lanes[lane].busy = work.tokens > 0.0;
        self.lanes[lane].busy.then_some(work)
    }

    /// Gives the requests in the batch their tokens.
    fn advance(
        &mut self,
        lane: usize,
        setup: &Aggregated,
        requests: &[Request],
        budgets: &mut [u32],
    ) {
        let mut at = 0;
        while at < self.lanes[lane].running.len() {
            let one = self.lanes[lane].running[at];
            let need = requests[one.request].prompt + one.done - one.computed;
            let taken = need.min(budgets[one.rank]);
            while !self.fits(u64::from(taken), setup) && self.lanes[lane].running.len() > at + 1 {
                self.preempt(lane);
            }
            budgets[one.rank] -= taken;
            self.held += u64::from(taken);
            self.lanes[lane].running[at].taken = taken;
            at += 1;
        }
    }

    fn preempt(&mut self, lane: usize) {
        let Some(last) = self.lanes[lane].running.pop() else { return };
        let kv = u64::from(last.computed + last.taken);
        assert!(self.held >= kv, "a lane gives up {kv} tokens of KV, of {}", self.held);
        self.held -= kv;
        self.waiting.push_front(One { computed: 0, taken: 0, ..last });
    }

    fn admit(
        &mut self,
        lane: usize,
        setup: &Aggregated,
        requests: &[Request],
        budgets: &mut [u32],
    ) {
        while let Some(mut one) = self.waiting.front().copied() {
            let all = self.running();
            let need = requests[one.request].prompt + one.done;
            one.rank = (0..budgets.len())
                .min_by_key(|rank| {
                    let own = |one: &&One| one.rank == *rank;
                    (budgets[*rank] == 0, self.lanes[lane].running.iter().filter(own).count())
                })
                .unwrap_or(0);
            let fair = self.lanes[lane].running.len() * self.lanes.len() <= all;
            let room = self.fits(u64::from(need) + 1, setup) || all == 0;
            if budgets[one.rank] == 0 || !fair || !room || all >= setup.engine.seats {
                return;
            }
            one.taken = need.min(budgets[one.rank]);
            budgets[one.rank] -= one.taken;
            self.held += u64::from(one.taken);
            self.waiting.pop_front();
            self.lanes[lane].running.push(one);
        }
    }

    fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.running.len()).sum()
    }

    fn fits(&self, tokens: u64, setup: &Aggregated) -> bool {
        (self.held + tokens) as f64 <= setup.engine.kv_tokens
    }

    /// Ends a lane's step; returns the requests with their first token, and those that end.
    pub(super) fn stepped(
        &mut self,
        lane: usize,
        requests: &[Request],
    ) -> (Vec<usize>, Vec<usize>) {
        let lane = &mut self.lanes[lane];
        assert!(lane.busy, "a lane ends a step that it did not start");
        lane.busy = false;
        let (mut first, mut over) = (Vec::new(), Vec::new());
        let held = &mut self.held;
        lane.running.retain_mut(|one| {
            let asked = requests[one.request];
            let moved = one.taken > 0;
            one.computed += core::mem::take(&mut one.taken);
            if moved && one.computed == asked.prompt + one.done {
                one.done += 1;
                if one.done == 1 {
                    first.push(one.request);
                }
            }
            let more = one.done < asked.output.max(1);
            if !more {
                *held -= u64::from(one.computed);
                over.push(one.request);
            }
            more
        });
        assert!(self.outstanding >= over.len(), "{} requests end, more than there are", over.len());
        self.outstanding -= over.len();
        (first, over)
    }
}
