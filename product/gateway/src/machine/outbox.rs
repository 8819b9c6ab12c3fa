//! The machine's messages to the peer tasks: that something changed, how many queued requests to ask
//! each peer for, and what siblings are to be told.
//!
//! It is written under the machine's lock and read outside of it, so nothing here blocks.

use std::sync::atomic::{AtomicU32, Ordering};

use meridian_base::PeerId;
use meridian_config::MOST_PEERS;
use tokio::sync::Notify;

use crate::machine::siblings::SiblingQueues;

#[derive(Debug)]
pub(crate) struct Outbox {
    changed: Notify,
    peers: Vec<Steal>,
    pub(crate) siblings: SiblingQueues,
}

/// Number of queued requests to ask one peer for.
#[derive(Debug, Default)]
struct Steal {
    count: AtomicU32,
    wake: Notify,
}

impl Outbox {
    /// An outbox for `peers` peers.
    pub(crate) fn new(peers: usize) -> Outbox {
        assert!(peers <= MOST_PEERS, "{peers} peers; sets of peers have {MOST_PEERS} bits");
        Outbox {
            changed: Notify::new(),
            peers: (0..peers).map(|_| Steal::default()).collect(),
            siblings: SiblingQueues::default(),
        }
    }

    /// Notes that something relevant to peers may have changed.
    pub(crate) fn touch(&self) {
        self.changed.notify_one();
    }

    /// Waits until something may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Notes that a peer should be asked for queued requests.
    pub(crate) fn steal(&self, from: PeerId, count: u32) {
        if let Some(steal) = self.peers.get(from.index()) {
            steal.count.store(count, Ordering::Relaxed);
            steal.wake.notify_one();
        }
    }

    /// Waits until a peer should be asked for queued requests; returns how many.
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
