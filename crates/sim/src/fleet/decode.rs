//! Decode instances: continuous batches, as many lanes as the pipeline has stages, so that all stages
//! are at work.
//!
//! A request joins a lane between two of its steps when its whole KV has room. The lane with fewer
//! requests than the mean takes it.

use std::collections::VecDeque;

use meridian_engine::Work;

use super::setup::{Instance, Request};

/// A request in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) request: usize,
    /// Tokens written so far.
    pub(super) done: u32,
}

/// A decode instance while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Decode {
    pub(super) waiting: VecDeque<usize>,
    pub(super) lanes: Vec<Lane>,
    /// Requests that are here or on their way.
    pub(super) outstanding: usize,
    /// Tokens of KV that are spoken for.
    reserved: f64,
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
    pub(super) fn new(stages: usize) -> Decode {
        Decode { lanes: vec![Lane::default(); stages], ..Decode::default() }
    }

    /// The step that a lane does next, with whoever may join it; `None` where there is nobody.
    pub(super) fn step(
        &mut self,
        lane: usize,
        instance: &Instance,
        requests: &[Request],
    ) -> Option<Work> {
        self.admit(lane, instance, requests);
        let running = &self.lanes[lane].running;
        if running.is_empty() {
            return None;
        }
        let mut work = Work::default();
        for one in running {
            work.decode(requests[one.request].prompt + one.done);
        }
        self.lanes[lane].busy = true;
        Some(work)
    }

    fn admit(&mut self, lane: usize, instance: &Instance, requests: &[Request]) {
        while let Some(request) = self.waiting.front().copied() {
            let all: usize = self.lanes.iter().map(|lane| lane.running.len()).sum();
            let fair = self.lanes[lane].running.len() * self.lanes.len() <= all;
            let kv = kv(&requests[request]);
            // A request that no empty instance could hold is let in all the same.
            let room = self.reserved + kv <= instance.kv_tokens || all == 0;
            if !fair || !room || all >= instance.seats {
                return;
            }
            self.waiting.pop_front();
            self.reserved += kv;
            // The first token came with the prompt.
            self.lanes[lane].running.push(Running { request, done: 1 });
        }
    }

    /// A lane's step is over: everybody has one token more, and some have their last.
    pub(super) fn stepped(&mut self, lane: usize, requests: &[Request]) -> Vec<usize> {
        let lane = &mut self.lanes[lane];
        lane.busy = false;
        lane.running.iter_mut().for_each(|one| one.done += 1);
        let mut over = Vec::new();
        lane.running.retain(|one| {
            let more = one.done < requests[one.request].output;
            if !more {
                over.push(one.request);
            }
            more
        });
        for request in &over {
            self.reserved -= kv(&requests[*request]);
            self.outstanding -= 1;
        }
        over
    }
}

/// Tokens of KV that a request has in the end.
fn kv(request: &Request) -> f64 {
    f64::from(request.prompt) + f64::from(request.output)
}
