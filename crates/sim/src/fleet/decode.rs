//! Decode instances: continuous batches, as many lanes as the pipeline has stages, so that all stages
//! are at work.
//!
//! A request joins a lane between two of its steps when the KV that it has by then has room. The lane
//! with fewer requests than the mean takes it. Replies grow; where they outgrow the room the newest in
//! the lane loses its KV, goes back to the front of the queue, and has it computed anew when it joins
//! again, as in vLLM.

use std::collections::VecDeque;

use meridian_engine::Work;

use super::setup::{Instance, Request};

/// A request in a batch, or on its way there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    request: usize,
    /// Tokens written so far.
    done: u32,
    /// Its KV is to be computed anew.
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
    /// Requests that are here or on their way.
    pub(super) outstanding: usize,
    /// Tokens of KV of whoever is in a lane.
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
            // A request that no empty instance could hold is let in all the same.
            let room = self.fits(kv + 1, instance) || all == 0;
            if !fair || !room || all >= instance.seats {
                return;
            }
            self.waiting.pop_front();
            self.held += kv;
            self.lanes[lane].running.push(one);
        }
    }

    /// Takes the newest out of a lane until what the others write next has room.
    fn make_room(&mut self, lane: usize, instance: &Instance, requests: &[Request]) {
        while !self.fits(0, instance) && self.running() > 1 {
            let Some(mut last) = self.lanes[lane].running.pop() else { return };
            self.held -= u64::from(last.kv(requests));
            last.lost = true;
            self.waiting.push_front(last);
        }
    }

    fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.running.len()).sum()
    }

    /// Whether so many tokens have room beside those that everybody has and writes next.
    fn fits(&self, tokens: u64, instance: &Instance) -> bool {
        (self.held + self.running() as u64 + tokens) as f64 <= instance.kv_tokens
    }

    /// A lane's step is over: everybody has one token more, and some have their last.
    pub(super) fn stepped(&mut self, lane: usize, requests: &[Request]) -> Vec<usize> {
        let lane = &mut self.lanes[lane];
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
        self.outstanding -= over.len();
        over
    }
}
