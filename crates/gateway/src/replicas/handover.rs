//! What a gateway knows of a replica, for another that is given it.
//!
//! A gateway that was given a replica (at its start, by adoption, by getting it back) asks all its
//! peers over the streams on which they tell of themselves. Who has the replica answers with what it
//! is thought to hold and how fast it is; and who has let it go within the last minute too, for one
//! that is handed back may be gone there before the other side asks. Large answers are told in
//! parts, so that heartbeats need not wait behind them.
//!
//! Only peers whose prefix hashes compare tell it and take it in.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::uri::Authority;
use meridian_base::PeerId;
use meridian_routing::Holdings;
use meridian_wire::peer::{Tell, parts};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock::{Mutex, MutexGuard};

/// For so long it is remembered what a replica held that has left.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Blocks that are remembered of all of them together: 4 MB.
const MOST_REMEMBERED: usize = 1 << 19;

/// Holdings of replicas that change hands.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The blocks in which peers were told that prompts are read here; 0 for none.
    told_block_bytes: usize,
    /// Whether the policy in force reads prompts in those blocks.
    compares: AtomicBool,
    /// What replicas held that have left.
    left: Mutex<VecDeque<Kept>>,
    /// By peer, the replicas that joined and that it was not asked about yet.
    joined: Vec<Joined>,
}

#[derive(Debug, Default)]
struct Joined {
    replicas: Mutex<Vec<Authority>>,
    wake: Notify,
}

#[derive(Debug)]
struct Kept {
    at: Instant,
    replica: Authority,
    holdings: Holdings,
}

impl Handover {
    /// Of a gateway with so many peers, whose hello names these blocks.
    pub(crate) fn new(told_block_bytes: usize, peers: usize) -> Handover {
        Handover {
            told_block_bytes,
            compares: AtomicBool::new(true),
            left: Mutex::default(),
            joined: (0..peers).map(|_| Joined::default()).collect(),
        }
    }

    /// Another policy decides, which reads prompts in these blocks, or in none. Prefix hashes of
    /// other blocks than the hello said mean nothing to peers, nor theirs to this gateway: while it
    /// decides, none are told and none are taken in.
    pub(crate) fn read_in(&self, block_bytes: Option<usize>) {
        let compares = block_bytes == Some(self.told_block_bytes);
        self.compares.store(compares, Ordering::Relaxed);
    }

    /// Whether prefix hashes of this gateway and of its peers are of the same blocks.
    pub(crate) fn compares(&self) -> bool {
        self.compares.load(Ordering::Relaxed)
    }

    /// A replica joined: peers may know what it holds.
    pub(crate) fn joined(&self, replica: &Authority) {
        for peer in &self.joined {
            let mut replicas = peer.replicas.lock();
            if !replicas.contains(replica) {
                replicas.push(replica.clone());
            }
            drop(replicas);
            peer.wake.notify_one();
        }
    }

    /// Waits until a peer is to be asked about replicas, and says which.
    pub(crate) async fn to_ask(&self, peer: PeerId) -> Vec<Authority> {
        let Some(peer) = self.joined.get(peer.index()) else {
            return std::future::pending().await;
        };
        peer.wake.notified().await;
        std::mem::take(&mut *peer.replicas.lock())
    }

    fn left(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        let mut left = self.left.lock();
        while left.front().is_some_and(|kept| kept.at.elapsed() > REMEMBERED) {
            left.pop_front();
        }
        left
    }

    /// A replica leaves, and the gateway that gets it may ask. Beyond the bound the oldest are
    /// forgotten.
    pub(crate) fn leaves(&self, replica: &Authority, holdings: Holdings) {
        if !self.compares() {
            return;
        }
        let mut left = self.left();
        left.retain(|kept| kept.replica != *replica);
        left.push_back(Kept { at: Instant::now(), replica: replica.clone(), holdings });
        let mut blocks: usize = left.iter().map(|kept| kept.holdings.blocks()).sum();
        while blocks > MOST_REMEMBERED
            && let Some(oldest) = left.pop_front()
        {
            blocks -= oldest.holdings.blocks();
        }
    }

    /// What is known of the replica with this host and port, in messages; none where nothing is.
    /// `here` has what the machine knows, where the replica is here.
    pub(crate) fn tell(&self, replica: &str, here: Option<Holdings>) -> Vec<Tell> {
        let left = || {
            let left = self.left();
            left.iter().find(|kept| kept.replica == replica).map(|kept| kept.holdings.clone())
        };
        let known = here.filter(|holdings| !holdings.is_empty()).or_else(left);
        let parts = known.map_or_else(Vec::new, |holdings| parts(&holdings));
        parts.into_iter().map(|part| Tell::Holdings(replica.to_owned(), part)).collect()
    }
}
