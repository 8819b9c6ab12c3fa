//! What the machine leaves for the tasks that talk to peers: that something changed, and how many
//! held requests to ask each peer for.
//!
//! It is written under the machine's lock and read outside of it, so nothing here waits.

use std::sync::atomic::{AtomicU32, Ordering};

use meridian_base::PeerId;
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Outbox {
    changed: Notify,
    peers: Vec<Steal>,
}

/// Held requests to ask one peer for.
#[derive(Debug, Default)]
struct Steal {
    count: AtomicU32,
    wake: Notify,
}

impl Outbox {
    /// For so many peers.
    pub(crate) fn new(peers: usize) -> Outbox {
        Outbox { changed: Notify::new(), peers: (0..peers).map(|_| Steal::default()).collect() }
    }

    /// Something may have changed that peers want to know of.
    pub(crate) fn touch(&self) {
        self.changed.notify_one();
    }

    /// Waits until something may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A peer is to be asked for held requests.
    pub(crate) fn steal(&self, from: PeerId, count: u32) {
        if let Some(steal) = self.peers.get(from.index()) {
            steal.count.store(count, Ordering::Relaxed);
            steal.wake.notify_one();
        }
    }

    /// Waits until a peer is to be asked for held requests, and for how many.
    pub(crate) async fn to_steal(&self, from: PeerId) -> u32 {
        let Some(steal) = self.peers.get(from.index()) else { return std::future::pending().await };
        loop {
            steal.wake.notified().await;
            let count = steal.count.swap(0, Ordering::Relaxed);
            if count > 0 {
                return count;
            }
        }
    }
}
