//! A pass: the order of batches and their feasibility check (MFS, appendix B, algorithm 1).
//!
//! A pass runs only when a batch arrives or departs. It orders batches by RED and visits them in
//! that order, assuming that each waits for all bytes of earlier batches at every port that it
//! uses. If a batch would end after its loose deadline, the pass prunes the heaviest requests at
//! its bottleneck, its own or those of earlier batches.
//!
//! As printed, the finish is re-estimated only after a request of an earlier batch was pruned, so
//! pruning continues after the batch fits; here it is re-estimated after each. Pruning stops when
//! no request has bytes left on the bottleneck, weighs a request less the longer it has been there
//! (or it would always take the longest prompts), and respects the drop budget. Pruning a request
//! of a computing batch removes only its handoff: the batch's collectives carry its share
//! regardless.

use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, PortId, Time};

use crate::config::{Config, RedOrder};
use crate::place::{numbered, order};
use crate::red::effective;
use crate::tables::{NONE, RequestRow, Standing, Use, World};
use crate::why::{Lever, Passed, PruneWhy};

/// Working memory, reserved once.
pub(crate) struct Scratch {
    config: Config,
    sequence: Vec<u32>,
    deadlines: Vec<Time>,
    /// S: bytes of the earlier batches, by port.
    before: Vec<f64>,
    /// L: bytes of the current batch, by port, and the ports where it has any.
    own: Vec<f64>,
    touched: Vec<u32>,
    /// Every port that `before` has bytes on.
    seen: Vec<u32>,
    /// By request row: its batch has been visited, so it can be pruned.
    pool: Vec<bool>,
}

/// A batch's estimate in a pass.
struct Estimate {
    finish: Time,
    bottleneck: PortId,
}

impl Scratch {
    pub(crate) fn new(config: &Config) -> Scratch {
        let ports = config.limits.ports as usize;
        Scratch {
            config: *config,
            sequence: Vec::with_capacity(config.limits.batches as usize),
            deadlines: Vec::new(),
            before: vec![0.0; ports],
            own: vec![0.0; ports],
            touched: Vec::with_capacity(ports),
            seen: Vec::with_capacity(ports),
            pool: vec![false; config.limits.requests as usize],
        }
    }

    /// Step 1: ranks of all batches; changed ones go into `moved`.
    pub(crate) fn rank(&mut self, world: &mut World, now: Time, moved: &mut Vec<u32>) {
        self.sequence.clear();
        self.sequence.extend_from_slice(&world.arrived);
        for &batch in &self.sequence {
            if world.batch(batch).told {
                continue;
            }
            self.deadlines.clear();
            let (mut slo, mut first) = (Duration::ZERO, Time::MAX);
            for &request in &world.batch(batch).requests {
                let row = world.request(request);
                let deadline = row.deadline.unwrap_or(Time::MAX);
                self.deadlines.push(deadline);
                if deadline < first {
                    (first, slo) = (deadline, row.slo);
                }
            }
            // Without requests there is no deadline, and the batch keeps the order of its arrival.
            if !self.deadlines.is_empty() {
                self.deadlines.sort_unstable();
                let clip = seconds(slo.as_secs_f64() * self.config.red_clip);
                let found = effective(&self.deadlines, clip);
                let row = &mut world.batches[batch as usize];
                (row.red, row.loose) = (found.red, found.loose);
            }
            if rank(&self.config, world, now, batch) {
                moved.push(batch);
            }
        }
        let key = |batch: &u32| (world.batch(*batch).rank, world.batch(*batch).sequence);
        self.sequence.sort_unstable_by_key(key);
    }

    /// Steps 2 and 3: feasibility in the order of the ranks, and pruning.
    pub(crate) fn prune(&mut self, world: &mut World, now: Time, passed: &mut Vec<Passed>) {
        for place in 0..self.sequence.len() {
            let batch = self.sequence[place];
            self.load(world, batch);
            let loose = world.batch(batch).loose;
            let mut estimate = self.estimate(world, now, batch);
            // The coordinator prunes the batches that it has ordered.
            while estimate.finish > loose && !world.batch(batch).told {
                let Some(event) = self.prune_one(world, now, batch, &estimate) else { break };
                passed.push(event);
                estimate = self.estimate(world, now, batch);
            }
            if estimate.finish <= loose && !world.batch(batch).told {
                self.reinstate(world, now, batch, passed);
            }
            self.leave();
        }
        for port in self.seen.drain(..) {
            self.before[port as usize] = 0.0;
        }
        for &batch in &self.sequence {
            world.batch(batch).requests.iter().for_each(|r| self.pool[*r as usize] = false);
        }
    }

    /// Enters the batch: its bytes become L, and its requests can be pruned.
    fn load(&mut self, world: &World, batch: u32) {
        world.collectives_left(batch, |port, bytes| self.add(port, bytes));
        for &request in &world.batch(batch).requests {
            self.pool[request as usize] = !world.batch(batch).told;
            let served = world.request(request).standing.is_served();
            each_use(self.config.can_defer, world, request, |port, all, freed| {
                self.add(port, if served { all } else { all - freed });
            });
        }
    }

    fn add(&mut self, port: PortId, bytes: f64) {
        assert!(bytes >= 0.0, "a pass adds bytes");
        let own = &mut self.own[port.index()];
        if *own == 0.0 && bytes > 0.0 {
            self.touched.push(port.0);
        }
        *own += bytes;
    }

    /// Leaves the batch: S grows by L.
    fn leave(&mut self) {
        for port in self.touched.drain(..) {
            let before = &mut self.before[port as usize];
            if *before == 0.0 {
                self.seen.push(port);
            }
            *before += core::mem::take(&mut self.own[port as usize]);
        }
    }

    /// Computation, then all bytes ahead at the worst of its ports, without any overlap.
    fn estimate(&self, world: &World, now: Time, batch: u32) -> Estimate {
        let mut worst = (0.0, PortId(0));
        for &port in &self.touched {
            let at = port as usize;
            let needs = (self.before[at] + self.own[at]) / world.rates[at];
            // A port where the batch itself has no bytes left does not delay it.
            if self.own[at] > 0.0 && needs > worst.0 {
                worst = (needs, PortId(port));
            }
        }
        let finish = now + world.batch(batch).compute_left(now) + seconds(worst.0);
        Estimate { finish, bottleneck: worst.1 }
    }

    /// Prunes the heaviest request at the bottleneck; `None` if there is none, or no budget.
    fn prune_one(
        &mut self,
        world: &mut World,
        now: Time,
        batch: u32,
        estimate: &Estimate,
    ) -> Option<Passed> {
        let port = estimate.bottleneck;
        let (request, bytes) = self.heaviest(world, now, port)?;
        if !world.requests[request as usize].counted && !world.budget.take(now) {
            return None;
        }
        let of_this = world.request(request).batch == batch;
        let lever = lever(self.config.can_defer, world, world.request(request));
        each_use(self.config.can_defer, world, request, |at, _, bytes| {
            let from = if of_this { &mut self.own } else { &mut self.before };
            from[at.index()] = (from[at.index()] - bytes).max(0.0);
        });
        let row = &mut world.requests[request as usize];
        (row.standing, row.strikes, row.counted) = (Standing::Pruned, 0, true);
        let late_by = estimate.finish.since(world.batch(batch).loose);
        let why = PruneWhy { port, late_by, bytes: bytes as u64 };
        Some(Passed::Pruned { request, lever, why })
    }

    /// The request with most bytes to free at the port; older requests count less.
    fn heaviest(&self, world: &World, now: Time, port: PortId) -> Option<(u32, f64)> {
        let aging = self.config.aging.as_secs_f64();
        let mut best: Option<(f64, u32, f64)> = None;
        let mut at = world.port_uses[port.index()];
        while at != NONE {
            let one = &world.uses[at as usize];
            at = one.port_next;
            let row = world.request(one.request);
            if !self.pool[one.request as usize] || !row.standing.is_served() {
                continue;
            }
            let bytes = freed(self.config.can_defer, world, row, one);
            let age = now.since(row.arrived).as_secs_f64();
            let weight = if aging > 0.0 { bytes * aging / (aging + age) } else { bytes };
            let ahead =
                |(most, request, _)| weight > most || (weight == most && one.request < request);
            if bytes > 0.0 && best.is_none_or(ahead) {
                best = Some((weight, one.request, bytes));
            }
        }
        best.map(|(_, request, bytes)| (request, bytes))
    }

    /// Reinstates a pruned request if its batch has fitted with it, with a margin, at consecutive
    /// passes.
    fn reinstate(&mut self, world: &mut World, now: Time, batch: u32, passed: &mut Vec<Passed>) {
        for nth in 0..world.batch(batch).requests.len() {
            let request = world.batch(batch).requests[nth];
            if world.request(request).standing != Standing::Pruned {
                continue;
            }
            each_use(self.config.can_defer, world, request, |port, _, freed| self.add(port, freed));
            let with = self.estimate(world, now, batch).finish;
            let loose = world.batch(batch).loose;
            let margin = loose.since(now).mul_f64(self.config.margin.min(1.0));
            let fits = with + margin <= loose;
            let strikes = self.config.strikes;
            let row = &mut world.requests[request as usize];
            row.strikes = if fits { row.strikes.saturating_add(1) } else { 0 };
            if row.strikes >= strikes {
                (row.standing, row.strikes) = (Standing::In, 0);
                passed.push(Passed::Reinstated { request });
            } else {
                each_use(self.config.can_defer, world, request, |port, _, bytes| {
                    self.own[port.index()] = (self.own[port.index()] - bytes).max(0.0);
                });
            }
        }
    }
}

/// Sets a batch's rank by its effective deadline; returns whether it changed.
pub(crate) fn rank(config: &Config, world: &mut World, now: Time, batch: u32) -> bool {
    let row = world.batch(batch);
    let rank = match (config.terms.red, config.red) {
        (false, _) => numbered(row.sequence),
        (true, RedOrder::Deadline) => order(row.red, 0),
        (true, RedOrder::Laxity) => order(row.red - world.service(now, batch), 0),
    };
    core::mem::replace(&mut world.batches[batch as usize].rank, rank) != rank
}

/// Bytes of a request's KV by port: all that remain, and those that pruning removes.
fn each_use(can_defer: bool, world: &World, request: u32, mut each: impl FnMut(PortId, f64, f64)) {
    let row = world.request(request);
    let mut at = row.uses;
    while at != NONE {
        let one = &world.uses[at as usize];
        let all = one.handoff().saturating_add(one.reuse);
        each(one.port, all as f64, freed(can_defer, world, row, one));
        at = one.next;
    }
}

/// Its handoff, and its fetch if that can still be deferred.
fn freed(can_defer: bool, world: &World, row: &RequestRow, one: &Use) -> f64 {
    let reuse = match lever(can_defer, world, row) {
        Lever::Defer => one.reuse,
        Lever::DemoteHandoff => 0,
    };
    one.handoff().saturating_add(reuse) as f64
}

pub(crate) fn lever(can_defer: bool, world: &World, row: &RequestRow) -> Lever {
    let computes = row.batch != NONE && world.batch(row.batch).computes;
    if can_defer && !row.started && !computes { Lever::Defer } else { Lever::DemoteHandoff }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
