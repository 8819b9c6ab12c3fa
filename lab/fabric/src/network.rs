//! Flows on ports: their rates, their remaining bytes, and when the next one ends.
//!
//! Changes of one instant are collected and settled together. Progress is lazy: a flow's bytes are
//! counted when its rate changes or on request, so an event costs in proportion to its changes,
//! not to the number of flows.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{Duration, FlowId, PortId, Time};

use crate::fill::{CAPPED, Scratch};
use crate::path::Path;

/// Strict priority: smaller goes first; flows with equal numbers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Priority(pub u8, pub u64);

/// A flow's demand on the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its path.
    pub path: Path,
    /// Bytes to carry, above 0.
    pub bytes: f64,
    /// Its priority.
    pub priority: Priority,
    /// Its weight within its priority, above 0.
    pub weight: f64,
    /// Most bytes a second that it uses; infinite for no cap.
    pub cap: f64,
}

impl Demand {
    /// `bytes` over `path` in the first priority, at weight 1, without a cap.
    #[must_use]
    pub fn new(path: Path, bytes: f64) -> Demand {
        Demand { path, bytes, priority: Priority(0, 0), weight: 1.0, cap: f64::INFINITY }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FlowRow {
    pub(crate) live: bool,
    /// Started or changed since rates were last settled.
    pub(crate) fresh: bool,
    /// The port that limits its rate, or [`CAPPED`].
    pub(crate) held: u32,
    pub(crate) rate: f64,
    pub(crate) demand: Demand,
    left: f64,
    since: Time,
    /// Counts changes of the rate: an end predicted under an older one is void.
    stamp: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct PortRow {
    pub(crate) rate: f64,
    /// In order.
    pub(crate) flows: Vec<Listed>,
    carried: f64,
}

impl PortRow {
    fn new(rate: f64) -> PortRow {
        assert!(rate >= 0.0 && rate.is_finite(), "a port has a rate");
        PortRow { rate, flows: Vec::new(), carried: 0.0 }
    }
}

/// A flow in a port's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) priority: Priority,
    pub(crate) flow: u32,
}

/// A flow-level network.
#[derive(Debug)]
pub struct Network {
    pub(crate) ports: Vec<PortRow>,
    pub(crate) flows: Vec<FlowRow>,
    ends: BinaryHeap<Reverse<(Time, u32, u32)>>,
    pub(crate) scratch: Scratch,
    live: u32,
    now: Time,
}

impl Network {
    /// A network of ports with the given rates in bytes a second, without flows.
    #[must_use]
    pub fn new(rates: &[f64]) -> Network {
        Network {
            ports: rates.iter().map(|rate| PortRow::new(*rate)).collect(),
            flows: Vec::new(),
            ends: BinaryHeap::new(),
            scratch: Scratch::new(rates.len()),
            live: 0,
            now: Time::ZERO,
        }
    }

    /// Adds a port with this rate in bytes a second.
    pub fn add(&mut self, rate: f64) -> PortId {
        self.ports.push(PortRow::new(rate));
        self.scratch.add_port();
        PortId(self.ports.len() as u32 - 1)
    }

    /// Starts a flow in a free row. It has no rate until [`Self::settle`].
    ///
    /// # Panics
    /// When the row is in use, a port is not in the network, or bytes or weight are not above 0:
    /// the caller must check its inputs.
    pub fn begin(&mut self, now: Time, id: FlowId, demand: Demand) {
        self.forward(now);
        assert!(demand.bytes > 0.0 && demand.weight > 0.0, "{id} has bytes and weight");
        if self.flows.len() <= id.index() {
            self.flows.resize_with(id.index() + 1, || FlowRow {
                live: false,
                fresh: false,
                held: CAPPED,
                rate: 0.0,
                demand,
                left: 0.0,
                since: Time::ZERO,
                stamp: 0,
            });
        }
        let row = &mut self.flows[id.index()];
        assert!(!row.live, "{id} is under way");
        (row.live, row.demand, row.rate) = (true, demand, 0.0);
        (row.left, row.since, row.stamp) = (demand.bytes, now, row.stamp.wrapping_add(1));
        self.live += 1;
        self.list(id.0);
    }

    /// Changes a flow's priority, weight and cap, as `edit` does.
    pub fn change(&mut self, now: Time, id: FlowId, edit: impl FnOnce(&mut Demand)) {
        self.forward(now);
        let was = self.flows[id.index()].demand;
        let mut demand = was;
        edit(&mut demand);
        assert!(was.path == demand.path, "a flow that changes stays on its path");
        if !self.flows[id.index()].live || was == demand {
            return;
        }
        self.unlist(id.0);
        self.flows[id.index()].demand = demand;
        self.list(id.0);
    }

    /// Ends a flow, even with bytes left; the bytes sent so far stay counted.
    pub fn end(&mut self, now: Time, id: FlowId) {
        self.forward(now);
        if !self.flows.get(id.index()).is_some_and(|row| row.live) {
            return;
        }
        self.progress(id.0);
        self.unlist(id.0);
        let row = &mut self.flows[id.index()];
        (row.live, row.rate, row.stamp) = (false, 0.0, row.stamp.wrapping_add(1));
        self.live -= 1;
    }

    /// Adds a flow to its ports' lists, so that it gets a rate.
    fn list(&mut self, flow: u32) {
        let row = &mut self.flows[flow as usize];
        row.fresh = true;
        assert!(row.demand.weight > 0.0 && row.demand.cap >= 0.0, "a flow has a share");
        let (path, priority) = (row.demand.path, row.demand.priority);
        let one = Listed { priority, flow };
        for port in path.ports() {
            let flows = &mut self.ports[port.index()].flows;
            let at = flows.partition_point(|other| *other < one);
            assert!(flows.get(at) != Some(&one), "a port lists a flow once");
            flows.insert(at, one);
        }
        self.scratch.seeds.push(flow);
    }

    /// Removes a flow from its ports' lists, which frees its share for others.
    fn unlist(&mut self, flow: u32) {
        let row = &self.flows[flow as usize];
        let (path, priority) = (row.demand.path, row.demand.priority);
        let gone = if row.fresh { 0.0 } else { row.rate };
        let one = Listed { priority, flow };
        for port in path.ports() {
            let flows = &mut self.ports[port.index()].flows;
            let at = flows.binary_search(&one).expect("a flow is listed at ports of its path");
            flows.remove(at);
            if gone > 0.0 {
                self.scratch.dirty.push((priority, port.0, gone));
            }
        }
    }

    /// Gives every flow its rate after the changes so far. Cheap if nothing changed.
    pub fn settle(&mut self, now: Time) {
        self.forward(now);
        self.fill();
        let mut solved = core::mem::take(&mut self.scratch.solved);
        for (flow, rate, held) in solved.drain(..) {
            let row = &mut self.flows[flow as usize];
            (row.held, row.fresh) = (held, false);
            if row.rate != rate {
                self.progress(flow);
                let row = &mut self.flows[flow as usize];
                (row.rate, row.stamp) = (rate, row.stamp.wrapping_add(1));
                if rate > 0.0 {
                    let (end, stamp) = (now + seconds(row.left / rate), row.stamp);
                    self.ends.push(Reverse((end, flow, stamp)));
                }
            }
        }
        self.scratch.solved = solved;
        self.sweep();
    }

    /// When the next flow ends, at the current rates.
    pub fn next_end(&mut self) -> Option<Time> {
        while let Some(&Reverse((end, flow, stamp))) = self.ends.peek() {
            if self.flows[flow as usize].stamp == stamp {
                return Some(end);
            }
            self.ends.pop();
        }
        None
    }

    /// Removes and returns the next flow that has ended by `now`. [`Self::settle`] then
    /// redistributes its share.
    pub fn ended(&mut self, now: Time) -> Option<FlowId> {
        let end = self.next_end().filter(|end| *end <= now)?;
        let Reverse((_, flow, _)) = self.ends.pop()?;
        self.forward(end.max(self.now));
        // Bytes left over because the end was rounded to nanoseconds have been carried too.
        let row = &mut self.flows[flow as usize];
        let left = core::mem::take(&mut row.left);
        row.since = self.now;
        for port in row.demand.path.ports() {
            self.ports[port.index()].carried += left;
        }
        self.end(now.max(self.now), FlowId(flow));
        Some(FlowId(flow))
    }

    /// A flow's bytes a second, as last settled; 0 if it is not active.
    #[must_use]
    pub fn rate(&self, id: FlowId) -> f64 {
        self.flows.get(id.index()).filter(|row| row.live).map_or(0.0, |row| row.rate)
    }

    /// Bytes that a flow has left at `now`, at the current rates.
    #[must_use]
    pub fn left(&self, now: Time, id: FlowId) -> f64 {
        let Some(row) = self.flows.get(id.index()).filter(|row| row.live) else { return 0.0 };
        (row.left - row.rate * now.since(row.since).as_secs_f64()).max(0.0)
    }

    /// A flow's demand, while it is active.
    #[must_use]
    pub fn demand(&self, id: FlowId) -> Option<&Demand> {
        self.flows.get(id.index()).filter(|row| row.live).map(|row| &row.demand)
    }

    /// Bytes that a port has carried until `now`.
    #[must_use]
    pub fn carried(&self, now: Time, port: PortId) -> f64 {
        let row = &self.ports[port.index()];
        let under_way = |one: &Listed| {
            let row = &self.flows[one.flow as usize];
            row.left - self.left(now, FlowId(one.flow))
        };
        row.carried + row.flows.iter().map(under_way).sum::<f64>()
    }

    /// Bytes a second that a port carries, as last settled.
    #[must_use]
    pub fn load(&self, port: PortId) -> f64 {
        self.ports[port.index()].flows.iter().map(|one| self.flows[one.flow as usize].rate).sum()
    }

    /// Flows at a port.
    pub fn at(&self, port: PortId) -> impl Iterator<Item = FlowId> + '_ {
        self.ports[port.index()].flows.iter().map(|one| FlowId(one.flow))
    }

    /// Number of active flows.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Whether there are no active flows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn forward(&mut self, now: Time) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
    }

    /// Counts the bytes that the flow has carried since its rate was set.
    fn progress(&mut self, flow: u32) {
        let now = self.now;
        let left = self.left(now, FlowId(flow));
        let row = &mut self.flows[flow as usize];
        let carried = row.left - left;
        assert!(carried >= 0.0, "a flow never has more bytes left than before");
        (row.left, row.since) = (left, now);
        for port in row.demand.path.ports() {
            self.ports[port.index()].carried += carried;
        }
    }

    /// Removes void ends once they are the majority.
    fn sweep(&mut self) {
        if self.ends.len() > 64 + 4 * self.live as usize {
            let mut ends = core::mem::take(&mut self.ends).into_vec();
            ends.retain(|Reverse((_, flow, stamp))| self.flows[*flow as usize].stamp == *stamp);
            self.ends = ends.into();
        }
    }
}

/// A time in seconds, rounded up to nanoseconds so that a flow is never over before its last byte.
fn seconds(seconds: f64) -> Duration {
    let nanos = libm::ceil(seconds * 1e9);
    Duration::from_nanos(if nanos < u64::MAX as f64 { nanos as u64 } else { u64::MAX })
}
