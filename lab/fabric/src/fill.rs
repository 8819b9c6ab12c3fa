//! Incremental water-filling.
//!
//! Rates are correct when each flow either has its cap or is *held* by a port. That port is full
//! with flows of higher or equal priority, and none of equal priority has more for its weight
//! (Bertsekas and Gallager, "Data Networks", section 6.5.2, extended by priorities). There is one
//! such allocation.
//!
//! Filling goes priority by priority, and within one priority from the least share up. Rates found
//! at one share do not depend on any above it, so changes propagate in that order. A changed port
//! is recomputed at the least share affected. Only if its own share differs do its flows get a new
//! rate, and then their other ports follow (for one priority, the bottleneck structure of
//! Ros-Giralt et al., "On the Bottleneck Structure of Congestion-Controlled Networks"). Once a
//! priority group has absorbed a change, the groups after it keep their rates. The result equals
//! that of a full fill, at a cost proportional to the change.

mod level;

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use self::level::{CLOSE, Level, SAME};
use crate::network::{Demand, Network, Priority};

/// Held by its own cap and by no port.
pub(crate) const CAPPED: u32 = u32::MAX;

/// How far rounding may take a port's load over its rate, as a share of the rate.
const OVER: f64 = 1e-6;

/// Working memory of a fill.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Changes: the priority, the port, and the rate that was freed there.
    pub(crate) dirty: Vec<(Priority, u32, f64)>,
    /// Flows that started or changed.
    pub(crate) seeds: Vec<u32>,
    /// Flows with their new rates, and the port that holds them.
    pub(crate) solved: Vec<(u32, f64, u32)>,
    epoch: u32,
    round: u32,
    /// By flow, and by port.
    marks: Vec<Mark>,
    pub(crate) work: Vec<Work>,
    /// How many of the changes have been processed, and the later groups that they affect.
    passed: usize,
    later: BinaryHeap<Reverse<(Priority, u32)>>,
    /// Ports of the group being filled, and the shares at which something happens.
    ports: Vec<u32>,
    queue: BinaryHeap<Reverse<Turn>>,
}

/// The intermediate result for a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    epoch: u32,
    open: bool,
    rate: f64,
}

/// A flow during a fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FillState {
    /// Keeps its rate, as far as known.
    Still,
    /// Will get another rate, not found yet.
    Open,
    /// Has its new rate.
    Done(f64),
}

/// A port during a fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    epoch: u32,
    round: u32,
    /// The group being filled, as a range of the port's list.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Bytes a second of the flows with higher priority.
    pub(crate) before: f64,
    /// How much more those and the group have than when last settled.
    change: f64,
    /// Its share in the queue; infinite if it is not queued.
    queued: f64,
}

impl Work {
    const NONE: Work = Work {
        epoch: 0,
        round: 0,
        from: 0,
        to: 0,
        before: 0.0,
        change: 0.0,
        queued: f64::INFINITY,
    };
}

/// A port or a cap, and the share at which to process it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    share: f64,
    /// The flow whose cap it is, or [`CAPPED`] for a port.
    flow: u32,
    port: u32,
}

impl Eq for Turn {}
impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Turn) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Turn {
    fn cmp(&self, other: &Turn) -> Ordering {
        let share = self.share.total_cmp(&other.share);
        share.then(self.flow.cmp(&other.flow)).then(self.port.cmp(&other.port))
    }
}

impl Scratch {
    pub(crate) fn new(ports: usize) -> Scratch {
        Scratch {
            dirty: Vec::new(),
            seeds: Vec::new(),
            solved: Vec::new(),
            epoch: 0,
            round: 0,
            marks: Vec::new(),
            work: alloc::vec![Work::NONE; ports],
            passed: 0,
            later: BinaryHeap::new(),
            ports: Vec::new(),
            queue: BinaryHeap::new(),
        }
    }

    pub(crate) fn add_port(&mut self) {
        self.work.push(Work::NONE);
    }

    fn mark(&mut self, flow: u32, open: bool, rate: f64) {
        self.marks[flow as usize] = Mark { epoch: self.epoch, open, rate };
    }
}

impl Network {
    /// Finds the rates that the changes affect, and writes them to `scratch.solved`.
    pub(crate) fn fill(&mut self) {
        if self.scratch.dirty.is_empty() && self.scratch.seeds.is_empty() {
            return;
        }
        self.enter();
        while self.next_group() {
            while let Some(Reverse(turn)) = self.scratch.queue.pop() {
                if turn.flow == CAPPED {
                    self.turn(turn.port, turn.share);
                } else if self.state(turn.flow) == FillState::Open {
                    let cap = self.flows[turn.flow as usize].demand.cap;
                    self.give(turn.flow, cap, CAPPED);
                }
            }
            self.leave();
        }
        self.scratch.dirty.clear();
    }

    /// Opens the flows that started or changed, and sorts all changes.
    fn enter(&mut self) {
        let flows = self.flows.len();
        let scratch = &mut self.scratch;
        scratch.marks.resize(flows, Mark::default());
        scratch.epoch = scratch.epoch.wrapping_add(1).max(1);
        for flow in scratch.seeds.drain(..) {
            let (row, mark) = (&self.flows[flow as usize], &mut scratch.marks[flow as usize]);
            if row.live && mark.epoch != scratch.epoch {
                *mark = Mark { epoch: scratch.epoch, open: true, rate: 0.0 };
                let Demand { path, priority, .. } = row.demand;
                scratch.dirty.extend(path.ports().iter().map(|port| (priority, port.0, 0.0)));
            }
        }
        scratch.dirty.sort_unstable_by_key(|(priority, port, _)| (*priority, *port));
        scratch.passed = 0;
    }

    /// Puts the ports of the next priority into the queue; false if there are no more.
    fn next_group(&mut self) -> bool {
        let changed = self.scratch.dirty.get(self.scratch.passed).map(|first| first.0);
        let behind = self.scratch.later.peek().map(|first| first.0.0);
        let Some(priority) = changed.into_iter().chain(behind).min() else { return false };
        self.scratch.round = self.scratch.round.wrapping_add(1).max(1);
        self.scratch.ports.clear();
        while let Some(&(next, port, gone)) = self.scratch.dirty.get(self.scratch.passed)
            && next == priority
        {
            self.scratch.passed += 1;
            self.reach(port, priority);
            self.scratch.work[port as usize].change -= gone;
        }
        while let Some(&Reverse((next, port))) = self.scratch.later.peek()
            && next == priority
        {
            self.scratch.later.pop();
            self.reach(port, priority);
        }
        for nth in 0..self.scratch.ports.len() {
            let port = self.scratch.ports[nth];
            let Work { from, to, .. } = self.scratch.work[port as usize];
            for at in from..to {
                let flow = self.ports[port as usize].flows[at].flow;
                let first = self.flows[flow as usize].demand.path.ports()[0].0 == port;
                if first && self.state(flow) == FillState::Open {
                    self.queue_cap(flow);
                }
            }
            self.look(port);
        }
        true
    }

    /// Advances to a port's flows of a priority, past those before them.
    fn reach(&mut self, port: u32, priority: Priority) {
        let mut work = self.scratch.work[port as usize];
        if work.epoch != self.scratch.epoch {
            let epoch = self.scratch.epoch;
            work = Work { epoch, ..Work::NONE };
        } else if work.round == self.scratch.round {
            return;
        }
        let flows = &self.ports[port as usize].flows[work.from..];
        let passed = flows.partition_point(|one| one.priority < priority);
        let equal = flows[passed..].partition_point(|one| one.priority == priority);
        work.before += flows[..passed].iter().map(|one| self.rate_now(one.flow)).sum::<f64>();
        let rate = self.ports[port as usize].rate;
        assert!(work.before <= rate * (1.0 + OVER), "flows of higher priority fit the port");
        (work.from, work.to) = (work.from + passed, work.from + passed + equal);
        (work.round, work.queued) = (self.scratch.round, f64::INFINITY);
        self.scratch.work[port as usize] = work;
        self.scratch.ports.push(port);
    }

    /// Queues the next priority of the group's ports if its remaining capacity changed.
    fn leave(&mut self) {
        for &port in &self.scratch.ports {
            let (work, row) = (&self.scratch.work[port as usize], &self.ports[port as usize]);
            let taken_up = work.change.abs() <= SAME * row.rate;
            if let Some(next) = row.flows.get(work.to).filter(|_| !taken_up) {
                self.scratch.later.push(Reverse((next.priority, port)));
            }
        }
    }

    /// A flow during the fill.
    pub(crate) fn state(&self, flow: u32) -> FillState {
        let mark = &self.scratch.marks[flow as usize];
        match mark.epoch == self.scratch.epoch {
            false => FillState::Still,
            true if mark.open => FillState::Open,
            true => FillState::Done(mark.rate),
        }
    }

    fn rate_now(&self, flow: u32) -> f64 {
        match self.state(flow) {
            FillState::Still => self.flows[flow as usize].rate,
            FillState::Open => 0.0,
            FillState::Done(rate) => rate,
        }
    }

    /// Queues a port at the share at which something happens there.
    fn look(&mut self, port: u32) {
        if let Some(share) = self.level(port).due() {
            self.queue_port(port, share);
        }
    }

    fn queue_port(&mut self, port: u32, share: f64) {
        let work = &mut self.scratch.work[port as usize];
        if share < work.queued {
            work.queued = share;
            self.scratch.queue.push(Reverse(Turn { share, flow: CAPPED, port }));
        }
    }

    fn queue_cap(&mut self, flow: u32) {
        let demand = &self.flows[flow as usize].demand;
        if demand.cap.is_finite() {
            let share = demand.cap / demand.weight;
            self.scratch.queue.push(Reverse(Turn { share, flow, port: CAPPED }));
        }
    }

    /// Processes a port at this share.
    fn turn(&mut self, port: u32, share: f64) {
        let work = &mut self.scratch.work[port as usize];
        if work.queued != share {
            return;
        }
        work.queued = f64::INFINITY;
        let level = self.level(port);
        let Some(due) = level.due() else { return };
        // Shares grow while others are found: a port whose share grew is queued again.
        if due > share && self.scratch.queue.peek().is_some_and(|next| next.0.share < due) {
            self.queue_port(port, due);
        } else if level.rises() {
            self.open_held(port);
        } else {
            self.freeze(port, &level);
        }
    }

    /// Flows that this port held so far can have more; their other ports decide how much.
    fn open_held(&mut self, port: u32) {
        let Work { from, to, .. } = self.scratch.work[port as usize];
        let mut opened = Vec::new();
        for at in from..to {
            let flow = self.ports[port as usize].flows[at].flow;
            if self.state(flow) == FillState::Still && self.flows[flow as usize].held == port {
                self.scratch.mark(flow, true, 0.0);
                self.queue_cap(flow);
                opened.push(flow);
            }
        }
        let priority = self.ports[port as usize].flows[from].priority;
        for flow in opened {
            let path = self.flows[flow as usize].demand.path;
            for other in path.ports().iter().filter(|other| other.0 != port) {
                self.reach(other.0, priority);
                self.look(other.0);
            }
        }
        self.look(port);
    }

    /// A port is full at this level: its open flows, those it holds and those that have more get
    /// its share.
    fn freeze(&mut self, port: u32, level: &Level) {
        let Work { from, to, .. } = self.scratch.work[port as usize];
        for at in from..to {
            let flow = self.ports[port as usize].flows[at].flow;
            let row = &self.flows[flow as usize];
            let takes = match self.state(flow) {
                FillState::Open => true,
                FillState::Still => level.moves(row.rate / row.demand.weight, row.held == port),
                FillState::Done(_) => false,
            };
            if takes {
                let rate = level.share * row.demand.weight;
                self.give(flow, rate, port);
            }
        }
    }

    /// Sets a flow's rate, and queues the ports that it crosses unless they are queued already.
    fn give(&mut self, flow: u32, rate: f64, held: u32) {
        assert!(rate >= 0.0 && rate.is_finite(), "a fill gives rates");
        let row = &self.flows[flow as usize];
        let change = rate - if row.fresh { 0.0 } else { row.rate };
        let (path, priority) = (row.demand.path, row.demand.priority);
        self.scratch.mark(flow, false, rate);
        self.scratch.solved.push((flow, rate, held));
        for port in path.ports() {
            self.reach(port.0, priority);
            let work = &mut self.scratch.work[port.index()];
            work.change += change;
            if port.0 != held && work.queued == f64::INFINITY {
                self.look(port.0);
            }
        }
    }
}

impl Level {
    /// Whether a flow that kept its share so far gets another one.
    fn moves(&self, share: f64, held: bool) -> bool {
        share > self.share * (1.0 + SAME) || (held && share < self.share * (1.0 - SAME))
    }
}

/// The remaining capacity of a port after higher priorities: 0 if only rounding errors remain.
pub(crate) fn left(rate: f64, before: f64) -> f64 {
    let left = rate - before;
    if left > CLOSE * rate { left } else { 0.0 }
}
