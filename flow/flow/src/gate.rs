//! The gate of a port: it decides which flow may send the next chunk.
//!
//! Priorities in the host's queues only affect bytes that are not committed yet: bytes passed to
//! the network card can't be taken back. So each port has a small window of permitted, uncompleted
//! bytes, and flows that ask beyond it wait in order of precedence. A flow is gated at its first
//! port, the sender's own.
//!
//! Bytes of a lower traffic class do not count: the card and the switches let a higher class pass
//! them. If they counted, a chunk that is starved at its receiver would hold up its sender's
//! collectives.
//!
//! A flow that ends with permitted bytes that never completed has lost its receiver or its client, and
//! the flows after it may have too. So the port is in doubt for the next [`DOUBT`] flows that do
//! complete bytes: a flow's chunks do not count before bytes of it have completed, so one that goes
//! nowhere holds up no other.

use alloc::vec;
use alloc::vec::Vec;

use crate::place::{Place, TRAFFIC_CLASSES};

/// Precedence of a waiting flow: class, order, and first come on a tie.
pub(crate) type Key = (u8, u64, u64);

/// All gates of a host.
#[derive(Debug)]
pub(crate) struct Gates {
    window: u64,
    ports: Vec<Gate>,
    /// By flow: its ask, and its index in its port's heap.
    asks: Vec<Ask>,
    sequence: u64,
}

#[derive(Clone, Debug, Default)]
struct Gate {
    /// Bytes permitted and not completed, by traffic class.
    permitted: [u64; TRAFFIC_CLASSES as usize],
    /// Waiting flows, as a binary heap, first at the top.
    heap: Vec<(Key, u32)>,
    /// How often its permits have expired.
    expired: u32,
    /// Flows whose first bytes have to complete until it is out of doubt.
    doubt: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ask {
    at: u32,
    bytes: u32,
    /// Its number among all asks, 0 while it does not wait.
    sequence: u64,
    /// Bytes permitted to it and not completed, and the traffic class that they count in: the highest
    /// of theirs.
    permitted: u64,
    traffic: u8,
    /// The traffic class of its next chunk.
    next: u8,
    /// Its port's `expired` when the first of those bytes was permitted.
    expired: u32,
    /// Bytes permitted to it in doubt, and not completed: they count nowhere.
    free: u64,
    /// Whether bytes of it have completed.
    proven: bool,
}

/// Flows that have to complete bytes before a port is out of doubt.
const DOUBT: u32 = 64;

/// Not in a heap.
const OUT: u32 = u32::MAX;

impl Gates {
    pub(crate) fn new(ports: u32, flows: u32, window: u32) -> Gates {
        let ask = Ask { at: OUT, ..Ask::default() };
        let ports = vec![Gate::default(); ports as usize];
        Gates { window: u64::from(window), ports, asks: vec![ask; flows as usize], sequence: 0 }
    }

    /// Whether the flow is waiting.
    pub(crate) fn waits(&self, flow: u32) -> bool {
        self.asks[flow as usize].at != OUT
    }

    /// The number of the ask with which a flow waits, 0 if it does not.
    pub(crate) fn ask_of(&self, flow: u32) -> u64 {
        if self.waits(flow) { self.asks[flow as usize].sequence } else { 0 }
    }

    /// A flow asks for a chunk, and waits until [`Self::next`] gives it.
    pub(crate) fn ask(&mut self, port: u32, flow: u32, bytes: u32, place: &Place) {
        assert!(!self.waits(flow), "a flow has one ask at a time");
        assert!(bytes > 0, "an ask has bytes");
        self.sequence += 1;
        let sequence = self.sequence;
        let ask = &mut self.asks[flow as usize];
        (ask.bytes, ask.sequence, ask.next) = (bytes, sequence, place.traffic);
        self.push(port, (place.class, place.order, sequence), flow);
    }

    /// The next flow that fits into the port's window, with its bytes.
    pub(crate) fn next(&mut self, port: u32) -> Option<(u32, u32)> {
        let gate = &self.ports[port as usize];
        let &(key, flow) = gate.heap.first()?;
        let mut below = gate.heap.iter().skip(1).take(2);
        assert!(below.all(|(other, _)| key <= *other), "the first of a gate goes first");
        if self.doubts(port, flow) {
            return Some((flow, self.permit(port, flow)));
        }
        let Ask { bytes, next, .. } = self.asks[flow as usize];
        let ahead: u64 = gate.permitted[..=usize::from(next)].iter().sum();
        // A chunk is permitted even if it alone exceeds the window.
        let room = ahead == 0 || ahead + u64::from(bytes) <= self.window;
        room.then(|| (flow, self.permit(port, flow)))
    }

    /// Permits the flow's waiting chunk regardless of the window.
    pub(crate) fn permit(&mut self, port: u32, flow: u32) -> u32 {
        self.remove(port, flow);
        let doubt = self.doubts(port, flow);
        let (ask, gate) = (&mut self.asks[flow as usize], &mut self.ports[port as usize]);
        if doubt {
            ask.free += u64::from(ask.bytes);
            return ask.bytes;
        }
        if ask.expired != gate.expired {
            (ask.permitted, ask.expired) = (0, gate.expired);
        }
        if ask.permitted == 0 || ask.next < ask.traffic {
            let counted = &mut gate.permitted[usize::from(ask.traffic)];
            assert!(*counted >= ask.permitted, "a class counts the permits of all of its flows");
            *counted -= ask.permitted;
            ask.traffic = ask.next;
            gate.permitted[usize::from(ask.traffic)] += ask.permitted;
        }
        ask.permitted += u64::from(ask.bytes);
        gate.permitted[usize::from(ask.traffic)] += u64::from(ask.bytes);
        ask.bytes
    }

    /// Bytes of the flow have completed. Bytes sent without a permit, or after it expired, free no
    /// capacity.
    pub(crate) fn completed(&mut self, port: u32, flow: u32, bytes: u64) {
        let (ask, gate) = (&mut self.asks[flow as usize], &mut self.ports[port as usize]);
        if !ask.proven {
            ask.proven = true;
            gate.doubt = gate.doubt.saturating_sub(1);
        }
        self.release(port, flow, bytes);
    }

    /// Frees permitted bytes of the flow, completed or never started.
    pub(crate) fn release(&mut self, port: u32, flow: u32, bytes: u64) {
        let (ask, gate) = (&mut self.asks[flow as usize], &mut self.ports[port as usize]);
        let free = bytes.min(ask.free);
        ask.free -= free;
        if ask.expired == gate.expired {
            let back = (bytes - free).min(ask.permitted);
            ask.permitted -= back;
            let counted = &mut gate.permitted[usize::from(ask.traffic)];
            assert!(*counted >= back, "a class counts the permits of all of its flows");
            *counted -= back;
        }
    }

    /// All permits at the port expire.
    pub(crate) fn expire(&mut self, port: u32) {
        let gate = &mut self.ports[port as usize];
        gate.expired = gate.expired.wrapping_add(1);
        gate.permitted = Default::default();
    }

    /// Whether a flow waits at the port.
    pub(crate) fn has_waiting(&self, port: u32) -> bool {
        !self.ports[port as usize].heap.is_empty()
    }

    /// The flow has ended, with all of its bytes or broken off: it stops waiting and releases its
    /// permitted bytes.
    pub(crate) fn forget(&mut self, port: u32, flow: u32, whole: bool) {
        if self.waits(flow) {
            self.remove(port, flow);
        }
        let Ask { permitted, free, .. } = self.asks[flow as usize];
        self.release(port, flow, u64::MAX);
        if !whole && permitted + free > 0 {
            self.ports[port as usize].doubt = DOUBT;
        }
        let ask = &mut self.asks[flow as usize];
        (ask.permitted, ask.proven) = (0, false);
    }

    /// Whether the port is in doubt, and no bytes of the flow have completed.
    fn doubts(&self, port: u32, flow: u32) -> bool {
        self.ports[port as usize].doubt > 0 && !self.asks[flow as usize].proven
    }

    /// The flow's precedence changed.
    pub(crate) fn moved(&mut self, port: u32, flow: u32, place: &Place) {
        if self.waits(flow) {
            let ask = &mut self.asks[flow as usize];
            ask.next = place.traffic;
            let sequence = ask.sequence;
            self.remove(port, flow);
            self.push(port, (place.class, place.order, sequence), flow);
        }
    }

    /// Bytes permitted and not completed at a port, by traffic class.
    pub(crate) fn permitted(&self, port: u32) -> &[u64] {
        &self.ports[port as usize].permitted
    }

    fn push(&mut self, port: u32, key: Key, flow: u32) {
        let heap = &mut self.ports[port as usize].heap;
        heap.push((key, flow));
        let at = heap.len() - 1;
        self.up(port, at);
    }

    fn remove(&mut self, port: u32, flow: u32) {
        let at = self.asks[flow as usize].at as usize;
        self.asks[flow as usize].at = OUT;
        let heap = &mut self.ports[port as usize].heap;
        let (_, removed) = heap.swap_remove(at);
        assert!(removed == flow, "a waiting flow knows its place in the heap");
        if at < heap.len() {
            let at = self.up(port, at);
            self.down(port, at);
        }
    }

    fn up(&mut self, port: u32, mut at: usize) -> usize {
        let heap = &mut self.ports[port as usize].heap;
        while at > 0 {
            let parent = (at - 1) / 2;
            if heap[parent].0 <= heap[at].0 {
                break;
            }
            heap.swap(parent, at);
            self.asks[heap[at].1 as usize].at = at as u32;
            at = parent;
        }
        self.asks[heap[at].1 as usize].at = at as u32;
        at
    }

    fn down(&mut self, port: u32, mut at: usize) {
        let heap = &mut self.ports[port as usize].heap;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(&(key, _)) = heap.get(left) else { break };
            let child =
                if heap.get(right).is_some_and(|(other, _)| *other < key) { right } else { left };
            if heap[at].0 <= heap[child].0 {
                break;
            }
            heap.swap(child, at);
            self.asks[heap[at].1 as usize].at = at as u32;
            at = child;
        }
        self.asks[heap[at].1 as usize].at = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use meridian_base::Rng;

    // A gate permits the same as a sorted map of the waiting flows would, through random asks,
    // moves, completions and ends, and never exceeds its window in any class.
    #[test]
    fn a_gate_is_a_sorted_map() {
        let mut rng = Rng::new(3);
        let mut gates = Gates::new(1, 64, 4);
        let mut naive: BTreeMap<u32, Key> = BTreeMap::new();
        let (mut out, mut sequence) = ([0_u64; 64], 0);
        for _ in 0..50_000 {
            let flow = rng.below(64) as u32;
            let place = Place::new(0, rng.below(3) as u8, rng.below(5) as u64);
            match rng.below(4) {
                0 if !gates.waits(flow) => {
                    gates.ask(0, flow, 1, &place);
                    sequence += 1;
                    naive.insert(flow, (place.class, place.order, sequence));
                }
                1 => {
                    gates.moved(0, flow, &place);
                    if let Some(key) = naive.get_mut(&flow) {
                        *key = (place.class, place.order, key.2);
                    }
                }
                2 => {
                    gates.completed(0, flow, 1);
                    out[flow as usize] = out[flow as usize].saturating_sub(1);
                }
                _ if rng.below(10) == 0 => {
                    gates.forget(0, flow, true);
                    naive.remove(&flow);
                    out[flow as usize] = 0;
                }
                _ => {}
            }
            while let Some((given, bytes)) = gates.next(0) {
                let first = naive.iter().min_by_key(|(_, key)| **key).map(|(flow, _)| *flow);
                assert_eq!(Some(given), first);
                naive.remove(&given);
                out[given as usize] += u64::from(bytes);
            }
            let permitted = gates.permitted(0);
            assert_eq!(permitted.iter().sum::<u64>(), out.iter().sum::<u64>());
            assert!(permitted.iter().all(|bytes| *bytes <= 2 * 4));
            if let Some((class, ..)) = naive.values().min() {
                let ahead: u64 = permitted[..=usize::from(*class)].iter().sum();
                assert!(ahead >= 4, "no flow waits in a free window");
            }
        }
    }
}
