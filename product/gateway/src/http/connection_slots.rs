//! ConnectionSlots for connections whose clients are not known yet.
//!
//! Each client that connects takes a place, before it has sent a byte. So that silent clients cannot shut out
//! the others, there are few places for connections that have proved nothing, and when all are
//! taken, a new connection gets the place of the oldest of them: an honest client sends its request
//! at once. A connection of this machine takes no place of the others. Once a client has proved who
//! it is, its connection has a place that no other client can take, as long as there are any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::lock::Mutex;

/// The places of one port.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    /// Most connections that have proved nothing, from other machines and from this one each.
    strangers: usize,
    /// Most that have proved who they are.
    known: usize,
    taken: Mutex<SlotsInUse>,
}

#[derive(Debug, Default)]
struct SlotsInUse {
    next: u64,
    /// By age, those from other machines and those from this one.
    strangers: [BTreeMap<u64, CancellationToken>; 2],
    known: usize,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    id: u64,
    is_local: bool,
    is_known: AtomicBool,
    lost: CancellationToken,
}

impl ConnectionSlots {
    pub(crate) fn new(strangers: usize, known: usize) -> Arc<ConnectionSlots> {
        assert!(strangers > 0, "a port without a place for a stranger would admit no client");
        Arc::new(ConnectionSlots { strangers, known, taken: Mutex::default() })
    }

    /// A place for a new connection, and whether another one lost its place to it.
    pub(crate) fn enter(self: &Arc<Self>, is_local: bool) -> (Arc<ConnectionSlot>, bool) {
        let mut taken = self.taken.lock();
        let id = taken.next;
        taken.next += 1;
        let strangers = &mut taken.strangers[usize::from(is_local)];
        let is_full = strangers.len() >= self.strangers;
        if is_full && let Some((_, oldest)) = strangers.pop_first() {
            oldest.cancel();
        }
        let lost = CancellationToken::new();
        strangers.insert(id, lost.clone());
        assert!(strangers.len() <= self.strangers, "strangers have a bounded number of places");
        let is_known = AtomicBool::new(false);
        (Arc::new(ConnectionSlot { places: self.clone(), id, is_local, is_known, lost }), is_full)
    }
}

impl ConnectionSlot {
    /// Its client has proved who it is: no other client takes its place any more.
    pub(crate) fn prove(&self) {
        if self.is_known.load(Ordering::Relaxed) {
            return;
        }
        let mut taken = self.places.taken.lock();
        // Beyond the limit, it stays where it is.
        if taken.known < self.places.known
            && taken.strangers[usize::from(self.is_local)].remove(&self.id).is_some()
        {
            taken.known += 1;
            self.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// Completes when another connection has got the place.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if self.is_known.load(Ordering::Relaxed) {
            assert!(taken.known > 0, "a known connection had a place");
            taken.known -= 1;
        } else {
            taken.strangers[usize::from(self.is_local)].remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect admin-starved: when all places of strangers are taken, the oldest of them makes room
    // for the next connection. Those of clients that are known, and those of this machine, stay.
    #[test]
    fn the_oldest_stranger_makes_room() {
        let places = ConnectionSlots::new(2, 1);
        let (known, _) = places.enter(false);
        known.prove();
        let (local, _) = places.enter(true);
        let mut flood = Vec::new();
        for n in 0..10 {
            let (place, is_full) = places.enter(false);
            assert_eq!(is_full, n >= 2);
            flood.push(place);
        }
        let lost: Vec<bool> = flood.iter().map(|place| place.lost.is_cancelled()).collect();
        assert_eq!(lost, [true, true, true, true, true, true, true, true, false, false]);
        assert!(!known.lost.is_cancelled() && !local.lost.is_cancelled());
        // There is one place for the known ones: the next stays a stranger.
        flood[9].prove();
        assert!(!flood[9].is_known.load(Ordering::Relaxed));
        drop(known);
        flood[9].prove();
        drop((flood, local));
        let taken = places.taken.lock();
        assert_eq!((taken.known, taken.strangers.iter().map(BTreeMap::len).sum::<usize>()), (0, 0));
    }
}
