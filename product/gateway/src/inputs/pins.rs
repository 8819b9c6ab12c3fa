//! Locations of stateful responses: `previous_response_id` must go back to the replica that
//! produced it (sticky sessions), and the sessions that these chains of responses are.
//!
//! A response belongs to the tenant that received it first, and no other tenant may continue it.
//! Engines let a client choose a response's id, so a response with the id of another tenant's is
//! not remembered. When the table is full, the oldest response of the tenant with the most
//! responses is forgotten.

use std::collections::{BTreeSet, HashMap, VecDeque};

use meridian_base::{PeerId, ReplicaId};

use crate::lock::Mutex;

/// Most responses remembered.
const MOST: usize = 65_536;

#[derive(Default)]
pub(crate) struct Pins(Mutex<Inner>);

/// The location of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    At(ReplicaId),
    /// At a peer, which knows the replica.
    Away(PeerId),
    /// Its replica or peer is gone.
    Gone,
}

/// A tenant's response: keyed hashes of the tenant's name and of the response's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseKey {
    pub(crate) tenant: u64,
    pub(crate) response: u64,
}

#[derive(Clone, Copy)]
struct Pin {
    tenant: u64,
    home: Home,
    session: u64,
}

#[derive(Default)]
struct Inner {
    /// By response id.
    homes: HashMap<u64, Pin>,
    /// Each tenant's responses, oldest first.
    tenants: HashMap<u64, VecDeque<u64>>,
    /// The tenants, ordered by number of responses.
    sizes: BTreeSet<(usize, u64)>,
}

impl Inner {
    fn resize(&mut self, tenant: u64, before: usize, after: usize) {
        let was_there = self.sizes.remove(&(before, tenant));
        assert_eq!(was_there, before > 0, "a tenant with {before} responses is listed by them");
        if after > 0 {
            self.sizes.insert((after, tenant));
        }
    }

    fn forget_one(&mut self) {
        let Some((size, tenant)) = self.sizes.last().copied() else { return };
        assert!(size > 0, "a tenant without responses is not listed");
        let Some(order) = self.tenants.get_mut(&tenant) else { return };
        if let Some(response) = order.pop_front() {
            self.homes.remove(&response);
        }
        if order.is_empty() {
            self.tenants.remove(&tenant);
        }
        self.resize(tenant, size, size - 1);
    }
}

impl Pins {
    /// Sets the location of a response, and the session that it belongs to. Returns false and
    /// changes nothing if another tenant's response has this id. `home` runs under the lock that
    /// [`Pins::forget`] takes, so a replica that is present then is forgotten later.
    pub(crate) fn set(&self, pin: ResponseKey, session: u64, home: impl FnOnce() -> Home) -> bool {
        let mut inner = self.0.lock();
        let home = home();
        let made = Pin { tenant: pin.tenant, home, session };
        if let Some(known) = inner.homes.get_mut(&pin.response) {
            let is_own = known.tenant == pin.tenant;
            if is_own {
                *known = made;
            }
            return is_own;
        }
        inner.homes.insert(pin.response, made);
        let order = inner.tenants.entry(pin.tenant).or_default();
        order.push_back(pin.response);
        let size = order.len();
        inner.resize(pin.tenant, size - 1, size);
        if inner.homes.len() > MOST {
            inner.forget_one();
        }
        assert!(inner.homes.len() <= MOST, "{} responses are remembered", inner.homes.len());
        true
    }

    /// The location of a response.
    pub(crate) fn get(&self, pin: ResponseKey) -> Option<Home> {
        self.pin(pin).map(|pin| pin.home)
    }

    /// The session that a response belongs to.
    pub(crate) fn session(&self, pin: ResponseKey) -> Option<u64> {
        self.pin(pin).map(|pin| pin.session)
    }

    fn pin(&self, key: ResponseKey) -> Option<Pin> {
        let pin = self.0.lock().homes.get(&key.response).copied()?;
        (pin.tenant == key.tenant).then_some(pin)
    }

    /// Marks every response at `replica` as gone. A request that continues one of them is refused
    /// with that reason.
    pub(crate) fn forget(&self, replica: ReplicaId) {
        let mut inner = self.0.lock();
        let homes = inner.homes.values_mut().map(|pin| &mut pin.home);
        let there = homes.filter(|home| **home == Home::At(replica));
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

    // The oldest entry is removed first, and the limit holds.
    #[test]
    fn bounded() {
        let pins = Pins::default();
        assert!((0..=MOST as u64).all(|n| pins.set(pin(0, n), 5, || HOME)));
        assert_eq!(pins.get(pin(0, 0)), None);
        assert_eq!(pins.get(pin(0, 1)), Some(HOME));
        pins.forget(ReplicaId(1));
        assert_eq!(pins.get(pin(0, 1)), Some(Home::Gone));
        assert_eq!(pins.get(pin(0, 0)), None);
    }

    // A response stays its first tenant's, even after its replica is gone; another tenant can
    // neither read nor move it.
    #[test]
    fn tenants_are_kept_apart() {
        let (pins, moved) = (Pins::default(), Home::At(ReplicaId(2)));
        assert!(pins.set(pin(1, 7), 5, || HOME) && !pins.set(pin(2, 7), 5, || moved));
        assert_eq!((pins.get(pin(1, 7)), pins.get(pin(2, 7))), (Some(HOME), None));
        assert!(pins.set(pin(1, 7), 5, || moved));
        pins.forget(ReplicaId(2));
        assert!(!pins.set(pin(2, 7), 5, || HOME));
        assert_eq!((pins.get(pin(1, 7)), pins.get(pin(2, 7))), (Some(Home::Gone), None));
    }

    // A tenant that fills the table pushes out its own responses, not those of others, and the
    // table stays within its limit.
    #[test]
    fn a_tenant_pushes_out_its_own() {
        let pins = Pins::default();
        assert!((0..10).all(|n| pins.set(pin(1, n), 5, || HOME)));
        assert!((10..2 * MOST as u64).all(|n| pins.set(pin(2, n), 5, || HOME)));
        assert!((0..10).all(|n| pins.get(pin(1, n)) == Some(HOME)));
        let inner = pins.0.lock();
        assert_eq!(inner.homes.len(), MOST);
        assert_eq!(inner.sizes, BTreeSet::from([(10, 1), (MOST - 10, 2)]));
        assert_eq!(inner.tenants.values().map(VecDeque::len).sum::<usize>(), MOST);
    }
}
