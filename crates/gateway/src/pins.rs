//! Where stateful answers live: `previous_response_id` must go back to the replica that gave it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use meridian_base::ReplicaId;

/// Answers remembered; older ones are forgotten first.
const MOST: usize = 65_536;

#[derive(Default)]
pub(crate) struct Pins(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    replicas: HashMap<u64, ReplicaId>,
    order: VecDeque<u64>,
}

impl Pins {
    /// `response` (its keyed hash) lives at `replica`.
    pub(crate) fn set(&self, response: u64, replica: ReplicaId) {
        let mut inner = self.0.lock().expect("no panic while held");
        if inner.replicas.insert(response, replica).is_none() {
            inner.order.push_back(response);
        }
        if inner.order.len() > MOST
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.replicas.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, response: u64) -> Option<ReplicaId> {
        self.0.lock().expect("no panic while held").replicas.get(&response).copied()
    }

    /// Nothing lives at `replica` any more.
    pub(crate) fn forget(&self, replica: ReplicaId) {
        let mut inner = self.0.lock().expect("no panic while held");
        let Inner { replicas, order } = &mut *inner;
        replicas.retain(|_, r| *r != replica);
        order.retain(|response| replicas.contains_key(response));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The oldest goes first, and the bound holds.
    #[test]
    fn bounded() {
        let pins = Pins::default();
        (0..=MOST as u64).for_each(|n| pins.set(n, ReplicaId(1)));
        assert_eq!(pins.get(0), None);
        assert_eq!(pins.get(1), Some(ReplicaId(1)));
        pins.forget(ReplicaId(1));
        assert_eq!(pins.get(1), None);
    }
}
