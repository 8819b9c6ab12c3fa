//! The first flow of each port's queue.
//!
//! A transfer engine sends one flow at a time and keeps the rest in its queue, while flows of other
//! libraries share the card beside it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::tables::World;

/// A queue at each sender's port, in order of a key and then of arrival.
pub(super) struct Heads {
    ports: Vec<BTreeSet<(u64, u64, u32)>>,
    /// By flow: its key and its number.
    keys: Vec<(u64, u64)>,
    sequence: u64,
}

impl Heads {
    pub(super) fn new(ports: u32, flows: u32) -> Heads {
        Heads {
            ports: (0..ports).map(|_| BTreeSet::new()).collect(),
            keys: alloc::vec![(0, 0); flows as usize],
            sequence: 0,
        }
    }

    /// Queues a flow; returns the flow that is no longer first because of it.
    pub(super) fn enter(&mut self, world: &World, flow: u32, key: u64) -> Option<u32> {
        let before = self.head(world, flow);
        self.sequence += 1;
        let sequence = self.sequence;
        self.keys[flow as usize] = (key, sequence);
        self.queue(world, flow).insert((key, sequence, flow));
        before.filter(|_| self.is_head(world, flow))
    }

    /// Takes a flow out of its queue; returns the flow that is first instead, if it was.
    pub(super) fn leave(&mut self, world: &World, flow: u32) -> Option<u32> {
        let was = self.is_head(world, flow);
        let (key, sequence) = self.keys[flow as usize];
        let queued = self.queue(world, flow).remove(&(key, sequence, flow));
        assert!(queued, "a flow leaves the queue that it entered");
        self.head(world, flow).filter(|_| was)
    }

    /// A queued flow's key.
    pub(super) fn key(&self, flow: u32) -> u64 {
        self.keys[flow as usize].0
    }

    /// Whether the flow is the first of its queue.
    pub(super) fn is_head(&self, world: &World, flow: u32) -> bool {
        self.head(world, flow) == Some(flow)
    }

    /// The first flow at the sender's port of `flow`.
    pub(super) fn head(&self, world: &World, flow: u32) -> Option<u32> {
        let port = world.flow(flow).ports.as_slice()[0];
        self.ports[port.index()].first().map(|(_, _, flow)| *flow)
    }

    fn queue(&mut self, world: &World, flow: u32) -> &mut BTreeSet<(u64, u64, u32)> {
        let port = world.flow(flow).ports.as_slice()[0];
        &mut self.ports[port.index()]
    }
}
