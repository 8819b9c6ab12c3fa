//! Who is wrong after a region was solved: the conditions of an allocation, flow by flow.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::fill::CLOSE;
use crate::network::{Network, Priority};

/// Flows of one priority at a port.
#[derive(Clone, Copy, Debug)]
struct Group {
    priority: Priority,
    /// Bytes a second of these and of all before them.
    until: f64,
    /// The most for its weight that one of them has.
    most: f64,
}

/// The groups of each port that was looked at.
type Seen = BTreeMap<u32, Vec<Group>>;

impl Network {
    /// Puts flows that must be solved with the region into `scratch.joining`.
    pub(crate) fn check(&mut self) {
        let mut seen = Seen::new();
        let mut joining = core::mem::take(&mut self.scratch.joining);
        for &port in &self.scratch.touched {
            for &flow in &self.ports[port as usize].flows {
                let held = self.held(flow, &mut seen);
                if self.scratch.in_region(flow) {
                    if !held {
                        self.greedier(port, flow, &mut joining);
                    }
                } else if !held || self.overfull(port, flow, &mut seen) {
                    joining.push(flow);
                }
            }
        }
        joining.sort_unstable();
        joining.dedup();
        self.scratch.joining = joining;
    }

    /// The priorities at a port, in order.
    fn groups(&self, port: u32) -> Vec<Group> {
        let mut flows: Vec<(Priority, f64, f64)> = Vec::new();
        for &flow in &self.ports[port as usize].flows {
            let (demand, rate) = (&self.flows[flow as usize].demand, self.rate_now(flow));
            flows.push((demand.priority, rate, rate / demand.weight));
        }
        flows.sort_unstable_by_key(|flow| flow.0);
        let (mut groups, mut until): (Vec<Group>, f64) = (Vec::new(), 0.0);
        for (priority, rate, share) in flows {
            until += rate;
            match groups.last_mut().filter(|group| group.priority == priority) {
                Some(group) => (group.until, group.most) = (until, group.most.max(share)),
                None => groups.push(Group { priority, until, most: share }),
            }
        }
        groups
    }

    /// Whether the port carries more than it can up to this flow.
    fn overfull(&self, port: u32, flow: u32, seen: &mut Seen) -> bool {
        let most = self.ports[port as usize].rate * (1.0 + CLOSE);
        self.rate_now(flow) > 0.0 && self.group(port, flow, seen).until > most
    }

    /// Whether the flow has its cap or a bottleneck.
    fn held(&self, flow: u32, seen: &mut Seen) -> bool {
        let (demand, rate) = (&self.flows[flow as usize].demand, self.rate_now(flow));
        let share = rate / demand.weight;
        let mut bottleneck = |port: u32| {
            let full = self.ports[port as usize].rate * (1.0 - CLOSE);
            let group = self.group(port, flow, seen);
            group.until >= full && share >= group.most * (1.0 - CLOSE)
        };
        rate >= demand.cap * (1.0 - CLOSE)
            || demand.path.ports().iter().any(|port| bottleneck(port.0))
    }

    /// Equals at the port that are held at more than the flow has.
    fn greedier(&self, port: u32, flow: u32, joining: &mut Vec<u32>) {
        let demand = &self.flows[flow as usize].demand;
        let share = self.rate_now(flow) / demand.weight;
        for &other in &self.ports[port as usize].flows {
            let theirs = &self.flows[other as usize].demand;
            if theirs.priority == demand.priority
                && !self.scratch.in_region(other)
                && self.rate_now(other) / theirs.weight > share
            {
                joining.push(other);
            }
        }
    }

    /// The flow's group at one of its ports.
    fn group(&self, port: u32, flow: u32, seen: &mut Seen) -> Group {
        let priority = self.flows[flow as usize].demand.priority;
        let groups = seen.entry(port).or_insert_with(|| self.groups(port));
        let at = groups.binary_search_by_key(&priority, |group| group.priority);
        groups[at.expect("a flow is in a group of each of its ports")]
    }
}
