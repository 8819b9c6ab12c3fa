//! Which target of the snapshot's index each remote replica is, behind those of the peers.

use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId};

use crate::peer::MOST;

/// Remote replicas followed at most.
pub(super) const REMOTES: usize = 1024;

/// The slots that are given out.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// By peer, then by the peer's own id of the replica: every digest asks for each.
    of: Vec<Vec<Option<u16>>>,
    /// Whether a slot is somebody's.
    taken: Vec<bool>,
}

impl Slots {
    pub(super) fn get(&self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        *self.of.get(peer.index())?.get(replica.index())?
    }

    /// Gives it the first slot that is free; `None` when all are taken.
    pub(super) fn take(&mut self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        let free = self.taken.iter().position(|taken| !taken).unwrap_or(self.taken.len());
        if free == REMOTES {
            return None;
        }
        let slot = (MOST + free) as u16;
        *grown(&mut self.taken, free) = true;
        *grown(grown(&mut self.of, peer.index()), replica.index()) = Some(slot);
        Some(slot)
    }

    /// Takes back the slots of those that are gone.
    pub(super) fn free(
        &mut self,
        peer: PeerId,
        gone: impl Fn(ReplicaId) -> bool,
        mut freed: impl FnMut(u16),
    ) {
        for (id, slot) in self.of.get_mut(peer.index()).into_iter().flatten().enumerate() {
            if let Some(free) = slot.take_if(|_| gone(ReplicaId(id as u16))) {
                self.taken[usize::from(free) - MOST] = false;
                freed(free);
            }
        }
    }
}

/// An entry of a list that is as long as it was ever needed.
fn grown<T: Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}
