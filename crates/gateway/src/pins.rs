//! Where stateful answers live: `previous_response_id` must go back to the replica that gave it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use meridian_base::{PeerId, ReplicaId};

/// Answers remembered; older ones are forgotten first.
const MOST: usize = 65_536;

#[derive(Default)]
pub(crate) struct Pins(Mutex<Inner>);

/// Where an answer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    At(ReplicaId),
    /// At a peer, which knows at which of its replicas.
    Away(PeerId),
    /// Where it lived is gone.
    Gone,
}

#[derive(Default)]
struct Inner {
    homes: HashMap<u64, Home>,
    order: VecDeque<u64>,
}

impl Pins {
    /// `response` (its keyed hash) lives at `home`.
    pub(crate) fn set(&self, response: u64, home: Home) {
        let mut inner = self.0.lock().expect("no panic while held");
        if inner.homes.insert(response, home).is_none() {
            inner.order.push_back(response);
        }
        if inner.order.len() > MOST
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.homes.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, response: u64) -> Option<Home> {
        self.0.lock().expect("no panic while held").homes.get(&response).copied()
    }

    /// Nothing lives at `replica` any more. What lived there is remembered as gone, so that whoever
    /// continues it is told so.
    pub(crate) fn forget(&self, replica: ReplicaId) {
        let mut inner = self.0.lock().expect("no panic while held");
        let there = inner.homes.values_mut().filter(|home| **home == Home::At(replica));
        there.for_each(|home| *home = Home::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The oldest goes first, and the bound holds.
    #[test]
    fn bounded() {
        let pins = Pins::default();
        (0..=MOST as u64).for_each(|n| pins.set(n, Home::At(ReplicaId(1))));
        assert_eq!(pins.get(0), None);
        assert_eq!(pins.get(1), Some(Home::At(ReplicaId(1))));
        pins.forget(ReplicaId(1));
        assert_eq!(pins.get(1), Some(Home::Gone));
        assert_eq!(pins.get(0), None);
    }
}
