//! How precedence reaches the network.
//!
//! A switch has a few classes and no more. A total order of flows is possible only in the queue of
//! their sender.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::{Duration, PortId, Time};
use meridian_fabric::Priority;
use meridian_flow::Place;

/// Where the order of flows is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforce {
    /// Every port serves in the total order of all flows, which no switch can.
    #[default]
    Total,
    /// Senders send in order, receivers and switches know the traffic class.
    Host,
    /// Senders send in order, receivers and switches know no classes: a gate in an ordinary network.
    Sender,
    /// Every port knows the traffic class, nothing more: priorities without a scheduler on the host.
    Classes,
}

impl Enforce {
    /// A flow's priority in the network.
    pub(super) fn priority(self, place: &Place) -> Priority {
        match self {
            Enforce::Total => Priority(place.class, place.order),
            Enforce::Sender => Priority(0, 0),
            Enforce::Host | Enforce::Classes => Priority(place.traffic, 0),
        }
    }
}

/// The senders' queues, for clusters too large to send chunk by chunk.
///
/// A sender with permits has one flow under way, the first in order, and all that share its place.
/// Flows with a rate limit are paced and leave the rest of the port to others. A flow that comes before
/// those under way waits for the chunk that is being sent.
#[derive(Debug)]
pub(super) struct Queues {
    ports: BTreeMap<PortId, Queue>,
    chunk: f64,
}

#[derive(Debug, Default)]
struct Queue {
    /// All flows by precedence; whether they are limited to a rate.
    flows: BTreeSet<(u8, u64, u32)>,
    limited: BTreeSet<u32>,
    /// Those under way.
    sending: BTreeSet<u32>,
    /// When a flow may overtake those under way.
    switch: Option<Time>,
}

/// Changes to the flows under way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) pause: Vec<u32>,
    pub(super) start: Vec<u32>,
}

impl Queues {
    /// Queues with chunks of this size.
    pub(super) fn new(chunk: u32) -> Queues {
        Queues { ports: BTreeMap::new(), chunk: f64::from(chunk) }
    }

    /// A flow's place at its sender's port is new or has changed.
    pub(super) fn place(&mut self, port: PortId, flow: u32, old: Option<&Place>, place: &Place) {
        let queue = self.ports.entry(port).or_default();
        if let Some(old) = old {
            queue.flows.remove(&(old.class, old.order, flow));
        }
        queue.flows.insert((place.class, place.order, flow));
        if place.rate.is_some() {
            queue.limited.insert(flow);
        } else {
            queue.limited.remove(&flow);
        }
    }

    /// A flow has ended.
    pub(super) fn remove(&mut self, port: PortId, flow: u32, place: &Place) {
        let queue = self.ports.entry(port).or_default();
        queue.flows.remove(&(place.class, place.order, flow));
        queue.limited.remove(&flow);
        queue.sending.remove(&flow);
    }

    /// Which flows at a port of this rate stop and start now.
    pub(super) fn settle(&mut self, now: Time, port: PortId, rate: f64) -> Change {
        let chunk = Duration::from_secs_f64(self.chunk / rate);
        let queue = self.ports.entry(port).or_default();
        let first = queue.first();
        let overtaken = queue.sending.iter().any(|flow| !first.contains(flow));
        if overtaken {
            let switch = *queue.switch.get_or_insert(now + chunk);
            if switch > now {
                return Change::default();
            }
        }
        queue.switch = None;
        let pause = queue.sending.difference(&first).copied().collect();
        let start = first.difference(&queue.sending).copied().collect();
        queue.sending = first;
        Change { pause, start }
    }

    /// When flows at any port overtake others.
    pub(super) fn due(&self) -> Option<Time> {
        self.ports.values().filter_map(|queue| queue.switch).min()
    }

    /// Ports where flows overtake others by `now`.
    pub(super) fn ports_due(&self, now: Time) -> Vec<PortId> {
        let due = |queue: &Queue| queue.switch.is_some_and(|switch| switch <= now);
        self.ports.iter().filter(|(_, queue)| due(queue)).map(|(port, _)| *port).collect()
    }
}

impl Queue {
    /// The flows that should be under way.
    fn first(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut place = None;
        for &(class, order, flow) in &self.flows {
            let limited = self.limited.contains(&flow);
            if !limited && *place.get_or_insert((class, order)) != (class, order) {
                break;
            }
            found.insert(flow);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(class: u8, order: u64) -> Place {
        Place { class, order, ..Place::default() }
    }

    // A flow that comes before the one under way waits for its chunk: 256 KiB at 1 GB/s are 262 us.
    // The flow behind starts again when the first has ended.
    #[test]
    fn a_flow_waits_for_the_chunk_that_is_being_sent() {
        let (port, rate) = (PortId(0), 1e9);
        let mut queues = Queues::new(256 << 10);
        queues.place(port, 1, None, &place(1, 0));
        let change = queues.settle(Time::ZERO, port, rate);
        assert_eq!(change, Change { pause: vec![], start: vec![1] });
        queues.place(port, 2, None, &place(0, 0));
        assert_eq!(queues.settle(Time::ZERO, port, rate), Change::default());
        let switch = queues.due().expect("flow 2 waits");
        assert_eq!(switch, Time::from_nanos(262_144));
        assert_eq!(queues.ports_due(switch), [port]);
        let change = queues.settle(switch, port, rate);
        assert_eq!(change, Change { pause: vec![1], start: vec![2] });
        queues.remove(port, 2, &place(0, 0));
        let change = queues.settle(Time::from_millis(1), port, rate);
        assert_eq!(change, Change { pause: vec![], start: vec![1] });
    }

    // Flows of one place are under way together, and a limited flow leaves the port to the next.
    #[test]
    fn equal_and_limited_flows_are_under_way_together() {
        let port = PortId(0);
        let mut queues = Queues::new(1);
        queues.place(port, 1, None, &Place { rate: Some(1.0), ..place(0, 0) });
        queues.place(port, 2, None, &place(1, 7));
        queues.place(port, 3, None, &place(1, 7));
        queues.place(port, 4, None, &place(1, 8));
        let change = queues.settle(Time::ZERO, port, 1e9);
        assert_eq!(change, Change { pause: vec![], start: vec![1, 2, 3] });
    }
}
