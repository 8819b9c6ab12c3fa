//! Decode instances: continuous batches in as many lanes as the pipeline has stages, so that all
//! stages are busy.
//!
//! A request joins a lane between two of its steps when its KV fits. A lane with fewer requests
//! than the mean takes it. Replies grow; when they outgrow the memory, the newest request in the
//! lane is preempted: it loses its KV, goes back to the front of the queue, and has it recomputed
//! when it joins again, as in vLLM.

use std::collections::VecDeque;

use meridian_engine::Work;

use super::setup::{Instance, Request};
use super::stage::Stages;

/// A request in a batch, or on its way there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    request: usize,
    /// Tokens generated so far.
    done: u32,
    /// Whether its KV must be recomputed.
    lost: bool,
}

impl Running {
    /// The first token came with the prompt.
    pub(super) fn new(request: usize) -> Running {
        Running { request, done: 1, lost: false }
    }

    /// Tokens of KV.
    fn kv(&self, requests: &[Request]) -> u32 {
        requests[self.request].prompt + self.done
    }
}

/// A decode instance while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Decode {
    pub(super) waiting: VecDeque<Running>,
    pub(super) lanes: Vec<Lane>,
    pub(super) stages: Stages,
    /// Requests that are here or on their way.
    pub(super) outstanding: usize,
    /// Tokens of KV of the requests in lanes.
    held: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) running: Vec<Running>,
    pub(super) busy: bool,
}

/// The instance with the fewest requests for its weight.
pub(super) fn least(all: &[Decode], instances: &[Instance]) -> usize {
    let load = |at: &usize| (all[*at].outstanding as f64 + 1.0) / instances[*at].weight;
    (0..all.len()).min_by(|a, b| load(a).total_cmp(&load(b))).expect("a fleet has a decode")
}

impl Decode {
    pub(super) fn new(setup: &Instance) -> Decode {
        let count = setup.stages.len();
        let (lanes, stages) = (vec![Lane::default(); count], Stages::new(count));
        Decode { lanes, stages, ..Decode::default() }
    }

    /// A lane's next step, including requests that may join it; `None` if the lane is empty.
    pub(super) fn step(
        &mut self,
        lane: usize,
        instance: &Instance,
        requests: &[Request],
    ) -> Option<Work> {
        self.make_room(lane, instance, requests);
        self.admit(lane, instance, requests);
        let running = &mut self.lanes[lane].running;
        if running.is_empty() {
            return None;
        }
        let mut work = Work::default();
        for one in running {
            match core::mem::take(&mut one.lost) {
                true => work.prefill(0, one.kv(requests)),
                false => work.decode(one.kv(requests)),
            }
        }
        self.lanes[lane].busy = true;
        Some(work)
    }

    fn admit(&mut self, lane: usize, instance: &Instance, requests: &[Request]) {
        while let Some(one) = self.waiting.front().copied() {
            let all = self.running();
            let fair = self.lanes[lane].running.len() * self.lanes.len() <= all;
            let kv = u64::from(one.kv(requests));
            // A request that would not fit even into an empty instance is admitted anyway.
            let room = self.fits(kv + 1, instance) || all == 0;
            if !fair || !room || all >= instance.seats {
                return;
            }
            self.waiting.pop_front();
            self.held += kv;
            self.lanes[lane].running.push(one);
        }
    }

    /// Preempts the newest requests of a lane until the others' next tokens fit.
    fn make_room(&mut self, lane: usize, instance: &Instance, requests: &[Request]) {
        while !self.fits(0, instance) && self.running() > 1 {
            let Some(mut last) = self.lanes[lane].running.pop() else { return };
            assert!(
                self.held >= u64::from(last.kv(requests)),
                "a lane holds more KV than there is"
            );
            self.held -= u64::from(last.kv(requests));
            last.lost = true;
            self.waiting.push_front(last);
        }
    }

    fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.running.len()).sum()
    }

    /// Whether this many tokens fit in addition to all current and next tokens.
    fn fits(&self, tokens: u64, instance: &Instance) -> bool {
        (self.held + self.running() as u64 + tokens) as f64 <= instance.kv_tokens
    }

    /// Ends a lane's step: every request has one token more, and some have their last.
    pub(super) fn stepped(&mut self, lane: usize, requests: &[Request]) -> Vec<usize> {
        let lane = &mut self.lanes[lane];
        assert!(lane.busy, "a lane ends a step that it did not start");
        lane.busy = false;
        lane.running.iter_mut().for_each(|one| one.done += 1);
        self.held += lane.running.len() as u64;
        let mut over = Vec::new();
        lane.running.retain(|one| {
            let more = one.done < requests[one.request].output;
            if !more {
                self.held -= u64::from(one.kv(requests));
                over.push(one.request);
            }
            more
        });
        assert!(self.outstanding >= over.len(), "{} requests end, more than there are", over.len());
        self.outstanding -= over.len();
        over
    }
}
