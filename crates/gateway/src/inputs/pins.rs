//! Where stateful answers live: `previous_response_id` must go back to the replica that gave it.
//!
//! An answer is known by its tenant and its id together, so no tenant continues another's. When the
//! table is full, the oldest answer of the tenant with the most answers is forgotten.

use std::collections::{BTreeSet, HashMap, VecDeque};

use meridian_base::{PeerId, ReplicaId};

use crate::lock::Mutex;

/// Most answers remembered.
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

/// An answer's name: the keyed hashes of its tenant and of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResponseKey {
    pub(crate) tenant: u64,
    pub(crate) response: u64,
}

#[derive(Default)]
struct Inner {
    homes: HashMap<ResponseKey, Home>,
    /// Each tenant's answers, the oldest first.
    tenants: HashMap<u64, VecDeque<u64>>,
    /// The tenants by how many answers they have.
    sizes: BTreeSet<(usize, u64)>,
}

impl Inner {
    fn resize(&mut self, tenant: u64, before: usize, after: usize) {
        self.sizes.remove(&(before, tenant));
        if after > 0 {
            self.sizes.insert((after, tenant));
        }
    }

    fn forget_one(&mut self) {
        let Some((size, tenant)) = self.sizes.last().copied() else { return };
        let Some(order) = self.tenants.get_mut(&tenant) else { return };
        if let Some(response) = order.pop_front() {
            self.homes.remove(&ResponseKey { tenant, response });
        }
        if order.is_empty() {
            self.tenants.remove(&tenant);
        }
        self.resize(tenant, size, size - 1);
    }
}

impl Pins {
    /// The answer lives at `home`.
    pub(crate) fn set(&self, pin: ResponseKey, home: Home) {
        let mut inner = self.0.lock();
        if inner.homes.insert(pin, home).is_some() {
            return;
        }
        let order = inner.tenants.entry(pin.tenant).or_default();
        order.push_back(pin.response);
        let size = order.len();
        inner.resize(pin.tenant, size - 1, size);
        if inner.homes.len() > MOST {
            inner.forget_one();
        }
    }

    pub(crate) fn get(&self, pin: ResponseKey) -> Option<Home> {
        self.0.lock().homes.get(&pin).copied()
    }

    /// Nothing lives at `replica` any more. What lived there is remembered as gone, and a request
    /// that continues it is refused with that reason.
    pub(crate) fn forget(&self, replica: ReplicaId) {
        let mut inner = self.0.lock();
        let there = inner.homes.values_mut().filter(|home| **home == Home::At(replica));
        there.for_each(|home| *home = Home::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Home = Home::At(ReplicaId(1));

    fn pin(tenant: u64, response: u64) -> ResponseKey {
        ResponseKey { tenant, response }
    }

    // The oldest goes first, and the bound holds.
    #[test]
    fn bounded() {
        let pins = Pins::default();
        (0..=MOST as u64).for_each(|n| pins.set(pin(0, n), HOME));
        assert_eq!(pins.get(pin(0, 0)), None);
        assert_eq!(pins.get(pin(0, 1)), Some(HOME));
        pins.forget(ReplicaId(1));
        assert_eq!(pins.get(pin(0, 1)), Some(Home::Gone));
        assert_eq!(pins.get(pin(0, 0)), None);
    }

    // The same id of two tenants is two answers.
    #[test]
    fn tenants_are_kept_apart() {
        let pins = Pins::default();
        pins.set(pin(1, 7), HOME);
        assert_eq!((pins.get(pin(1, 7)), pins.get(pin(2, 7))), (Some(HOME), None));
    }

    // A tenant that fills the table pushes out its own answers and not those of the others, and the
    // table stays within its bound.
    #[test]
    fn a_tenant_pushes_out_its_own() {
        let pins = Pins::default();
        (0..10).for_each(|n| pins.set(pin(1, n), HOME));
        (0..2 * MOST as u64).for_each(|n| pins.set(pin(2, n), HOME));
        assert!((0..10).all(|n| pins.get(pin(1, n)) == Some(HOME)));
        let inner = pins.0.lock();
        assert_eq!(inner.homes.len(), MOST);
        assert_eq!(inner.sizes, BTreeSet::from([(10, 1), (MOST - 10, 2)]));
        assert_eq!(inner.tenants.values().map(VecDeque::len).sum::<usize>(), MOST);
    }
}
