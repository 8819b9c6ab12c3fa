//! Slots: the index targets of the peers' replicas, numbered after those of the peers.

use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId};

use crate::peer::MOST;

/// Most of them that are followed.
pub(super) const MOST_FOLLOWED: usize = 1024;

/// The allocated slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// By peer, then by the peer's own id of the replica: every digest looks up each.
    of: Vec<Vec<Option<u16>>>,
    /// Whether a slot is taken.
    taken: Vec<bool>,
    /// All slots below this are taken. When all are, every digest asks in vain.
    full: usize,
}

impl Slots {
    pub(super) fn get(&self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        *self.of.get(peer.index())?.get(replica.index())?
    }

    /// Allocates the first free slot; `None` if all are taken.
    pub(super) fn take(&mut self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        let free = self.taken[self.full..].iter().position(|taken| !taken);
        let free = free.map_or(self.taken.len(), |at| self.full + at);
        self.full = free;
        assert!(free <= MOST_FOLLOWED, "no more slots than there are targets");
        if free == MOST_FOLLOWED {
            return None;
        }
        let slot = (MOST + free) as u16;
        *grown(&mut self.taken, free) = true;
        let before = grown(grown(&mut self.of, peer.index()), replica.index()).replace(slot);
        assert!(before.is_none(), "a replica of a peer has one slot");
        Some(slot)
    }

    /// Releases the slots of replicas that are gone; asks in ascending order.
    pub(super) fn free(
        &mut self,
        peer: PeerId,
        mut gone: impl FnMut(ReplicaId) -> bool,
        mut freed: impl FnMut(u16),
    ) {
        for (id, slot) in self.of.get_mut(peer.index()).into_iter().flatten().enumerate() {
            if let Some(free) = slot.take_if(|_| gone(ReplicaId(id as u16))) {
                let at = usize::from(free) - MOST;
                assert!(self.taken[at], "a slot is given back once");
                self.taken[at] = false;
                self.full = self.full.min(at);
                freed(free);
            }
        }
    }
}

/// An entry of a list that grows on demand.
fn grown<T: Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first free slot is allocated, whichever were released, and none if all are taken.
    #[test]
    fn the_first_free_slot_is_given_out() {
        let mut slots = Slots::default();
        let first = MOST as u16;
        let take = |slots: &mut Slots, peer, id| slots.take(PeerId(peer), ReplicaId(id));
        for id in 0..MOST_FOLLOWED as u16 {
            assert_eq!(take(&mut slots, id % 2, id), Some(first + id));
        }
        assert_eq!(take(&mut slots, 2, 0), None, "all are taken");
        let mut freed = Vec::new();
        slots.free(PeerId(1), |id| id.0 == 701 || id.0 == 5, |slot| freed.push(slot));
        assert_eq!(freed, [first + 5, first + 701]);
        assert_eq!(take(&mut slots, 2, 0), Some(first + 5));
        slots.free(PeerId(0), |id| id.0 == 2, |_| {});
        assert_eq!(take(&mut slots, 2, 1), Some(first + 2));
        assert_eq!(take(&mut slots, 2, 2), Some(first + 701));
        assert_eq!(take(&mut slots, 2, 3), None);
        assert_eq!(slots.get(PeerId(2), ReplicaId(1)), Some(first + 2));
    }
}
