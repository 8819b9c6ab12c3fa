//! Water-filling, where something changed.
//!
//! Rates are right when each flow either has its cap or a *bottleneck*: a port that is full with flows
//! that go before it or share with it, and where no equal has more for its weight (Bertsekas and
//! Gallager, "Data Networks", section 6.5.2, extended by priorities). There is one such allocation, and
//! whether it is that can be told flow by flow. So only a region is solved anew: first what shares a
//! port with a change and does not go before it, with all others held at their rates. Then whoever
//! shares a port with the region is checked, and who is wrong now joins the region, until nobody is.
//! What comes out is what solving everything would give; what it costs is what has changed.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use crate::network::{Network, Priority, stamps};

/// Rates that differ by less than this share are equal; sums of thousands of rates keep to it.
pub(crate) const CLOSE: f64 = 1e-9;

/// A region of more than one in so many flows becomes all of them.
const MOST_OF: usize = 4;

/// Working memory of a fill.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Ports with a change, and the first priority that it affects.
    pub(crate) dirty: Vec<(u32, Priority)>,
    /// Flows that began or changed.
    pub(crate) seeds: Vec<u32>,
    /// Flows with the rates they get.
    pub(crate) solved: Vec<(u32, f64)>,
    epoch: u32,
    /// By flow: in the region of this epoch, at which place of it, and its rate there.
    in_region: Vec<u32>,
    pub(crate) rate: Vec<f64>,
    region: Vec<u32>,
    /// By port: of this epoch, what is left for the group that is filled, and its open weight.
    pub(crate) touched: Vec<u32>,
    port_epoch: Vec<u32>,
    left: Vec<f64>,
    open: Vec<f64>,
    openers: Vec<u32>,
    group_ports: Vec<u32>,
    frozen: Vec<bool>,
    queue: BinaryHeap<Reverse<Share>>,
    pub(crate) joining: Vec<u32>,
}

/// The share at which a port is full.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    share: f64,
    port: u32,
}

impl Eq for Share {}
impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        self.share.total_cmp(&other.share).then(self.port.cmp(&other.port))
    }
}

impl Scratch {
    pub(crate) fn new(ports: usize) -> Scratch {
        Scratch {
            dirty: Vec::new(),
            seeds: Vec::new(),
            solved: Vec::new(),
            epoch: 0,
            in_region: Vec::new(),
            rate: Vec::new(),
            region: Vec::new(),
            touched: Vec::new(),
            port_epoch: stamps(ports),
            left: alloc::vec![0.0; ports],
            open: alloc::vec![0.0; ports],
            openers: stamps(ports),
            group_ports: Vec::new(),
            frozen: Vec::new(),
            queue: BinaryHeap::new(),
            joining: Vec::new(),
        }
    }

    pub(crate) fn in_region(&self, flow: u32) -> bool {
        self.in_region[flow as usize] == self.epoch
    }
}

impl Network {
    /// Solves anew what the changes affect; the rates go into `scratch.solved`.
    pub(crate) fn fill(&mut self) {
        if self.scratch.dirty.is_empty() {
            return;
        }
        self.open_region();
        loop {
            self.solve();
            self.check();
            if self.scratch.joining.is_empty() {
                break;
            }
            let mut joining = core::mem::take(&mut self.scratch.joining);
            joining.drain(..).for_each(|flow| self.join(flow));
            self.scratch.joining = joining;
            if self.scratch.region.len() * MOST_OF > self.len() as usize {
                // A change that has come this far goes on: solving all at once needs no check.
                (0..self.flows.len() as u32)
                    .filter(|flow| self.flows[*flow as usize].live)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|flow| self.join(flow));
                self.solve();
                break;
            }
        }
        let scratch = &mut self.scratch;
        let rate = |flow: &u32| (*flow, scratch.rate[*flow as usize]);
        scratch.solved.extend(scratch.region.iter().map(rate));
    }

    /// The first region: changed flows, and who shares a port with them and does not go before.
    fn open_region(&mut self) {
        let flows = self.flows.len();
        let scratch = &mut self.scratch;
        scratch.epoch = scratch.epoch.wrapping_add(1).max(1);
        scratch.in_region.resize(flows, 0);
        scratch.rate.resize(flows, 0.0);
        scratch.frozen.resize(flows, false);
        scratch.region.clear();
        scratch.touched.clear();
        let (mut dirty, mut seeds) =
            (core::mem::take(&mut scratch.dirty), core::mem::take(&mut scratch.seeds));
        dirty.sort_unstable();
        // The first priority of each port covers its later ones.
        dirty.dedup_by_key(|(port, _)| *port);
        for (port, first) in dirty.drain(..) {
            self.touch(port);
            for nth in 0..self.ports[port as usize].flows.len() {
                let flow = self.ports[port as usize].flows[nth];
                if self.flows[flow as usize].demand.priority >= first {
                    self.join(flow);
                }
            }
        }
        for flow in seeds.drain(..) {
            if self.flows[flow as usize].live {
                self.join(flow);
            }
        }
        (self.scratch.dirty, self.scratch.seeds) = (dirty, seeds);
    }

    /// Enters a flow into the region, its ports with it.
    fn join(&mut self, flow: u32) {
        if self.scratch.in_region(flow) {
            return;
        }
        self.scratch.in_region[flow as usize] = self.scratch.epoch;
        self.scratch.region.push(flow);
        let path = self.flows[flow as usize].demand.path;
        path.ports().iter().for_each(|port| self.touch(port.0));
    }

    fn touch(&mut self, port: u32) {
        let scratch = &mut self.scratch;
        if scratch.port_epoch[port as usize] != scratch.epoch {
            scratch.port_epoch[port as usize] = scratch.epoch;
            scratch.touched.push(port);
        }
    }

    /// A flow's rate: that of the region where it is in it.
    pub(crate) fn rate_now(&self, flow: u32) -> f64 {
        if self.scratch.in_region(flow) {
            self.scratch.rate[flow as usize]
        } else {
            self.flows[flow as usize].rate
        }
    }

    /// Gives the region's flows their rates, group by group in the order of priority.
    fn solve(&mut self) {
        let mut region = core::mem::take(&mut self.scratch.region);
        region.sort_unstable_by_key(|flow| (self.flows[*flow as usize].demand.priority, *flow));
        for flow in &region {
            self.scratch.rate[*flow as usize] = 0.0;
        }
        let flows = &self.flows;
        let mut groups: Vec<(usize, usize)> = Vec::new();
        let same = |a: &u32, b: &u32| {
            flows[*a as usize].demand.priority == flows[*b as usize].demand.priority
        };
        let mut from = 0;
        for group in region.chunk_by(same) {
            groups.push((from, from + group.len()));
            from += group.len();
        }
        for (from, to) in groups {
            self.fill_group(&region[from..to]);
        }
        self.scratch.region = region;
    }

    /// Weighted max-min among equals, over what those before them and those held leave.
    fn fill_group(&mut self, group: &[u32]) {
        self.prepare(group);
        let mut caps: Vec<(f64, u32)> = Vec::new();
        for &flow in group {
            let demand = &self.flows[flow as usize].demand;
            if demand.cap.is_finite() {
                caps.push((demand.cap / demand.weight, flow));
            }
        }
        caps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut caps = caps.into_iter().peekable();
        while let Some(Reverse(Share { share, port })) = self.scratch.queue.pop() {
            let now = self.share(port);
            if now == f64::INFINITY {
                continue;
            }
            // Shares only grow while others are frozen: one that grew waits its turn.
            if now > share && self.scratch.queue.peek().is_some_and(|next| next.0.share < now) {
                self.scratch.queue.push(Reverse(Share { share: now, port }));
                continue;
            }
            // A cap that is reached before the port is full comes first.
            if let Some(&(cap, flow)) = caps.peek()
                && cap <= now
            {
                caps.next();
                self.scratch.queue.push(Reverse(Share { share: now, port }));
                if !self.scratch.frozen[flow as usize] {
                    let rate = self.flows[flow as usize].demand.cap;
                    self.freeze(flow, rate);
                }
                continue;
            }
            for nth in 0..self.ports[port as usize].flows.len() {
                let flow = self.ports[port as usize].flows[nth];
                if self.open(flow, group) {
                    let rate = now * self.flows[flow as usize].demand.weight;
                    self.freeze(flow, rate);
                }
            }
        }
    }

    /// What is left for the group at each of its ports, and its weight there.
    fn prepare(&mut self, group: &[u32]) {
        let mut ports = core::mem::take(&mut self.scratch.group_ports);
        ports.clear();
        for &flow in group {
            self.scratch.frozen[flow as usize] = false;
            let demand = &self.flows[flow as usize].demand;
            ports.extend(demand.path.ports().iter().map(|port| port.0));
        }
        ports.sort_unstable();
        ports.dedup();
        let priority = self.flows[group[0] as usize].demand.priority;
        self.scratch.queue.clear();
        for &port in &ports {
            let row = &self.ports[port as usize];
            let (mut left, mut open, mut openers) = (row.rate, 0.0, 0);
            for &flow in &row.flows {
                let demand = &self.flows[flow as usize].demand;
                let equal = demand.priority == priority && self.scratch.in_region(flow);
                if equal {
                    open += demand.weight;
                    openers += 1;
                } else if demand.priority <= priority {
                    left -= self.rate_now(flow);
                }
            }
            let left = if left > CLOSE * row.rate { left } else { 0.0 };
            (self.scratch.left[port as usize], self.scratch.open[port as usize]) = (left, open);
            self.scratch.openers[port as usize] = openers;
            let share = self.share(port);
            self.scratch.queue.push(Reverse(Share { share, port }));
        }
        self.scratch.group_ports = ports;
    }

    /// What a unit of weight would get at the port if it were the next to be full.
    fn share(&self, port: u32) -> f64 {
        let (scratch, at) = (&self.scratch, port as usize);
        if scratch.openers[at] == 0 { f64::INFINITY } else { scratch.left[at] / scratch.open[at] }
    }

    /// Whether the flow is of the group that is filled and has no rate yet.
    fn open(&self, flow: u32, group: &[u32]) -> bool {
        let priority = |flow: u32| self.flows[flow as usize].demand.priority;
        self.scratch.in_region(flow)
            && !self.scratch.frozen[flow as usize]
            && priority(flow) == priority(group[0])
    }

    fn freeze(&mut self, flow: u32, rate: f64) {
        let scratch = &mut self.scratch;
        scratch.frozen[flow as usize] = true;
        scratch.rate[flow as usize] = rate;
        let demand = &self.flows[flow as usize].demand;
        for port in demand.path.ports() {
            let at = port.index();
            scratch.left[at] = (scratch.left[at] - rate).max(0.0);
            scratch.open[at] -= demand.weight;
            scratch.openers[at] -= 1;
        }
    }
}
