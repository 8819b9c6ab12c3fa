//! Hands a gateway's knowledge about a replica over to another gateway that takes it.
//!
//! A gateway that gets a replica (at its start, by adoption, or back from another) asks all its
//! peers over their news streams. A peer that has the replica answers with its assumed cache
//! contents and speed. So does one that let it go within the last minute, since a replica that is
//! handed back may be gone there before the other side asks. Large answers are sent in parts, so
//! heartbeats need not wait behind them.
//!
//! Only peers with comparable prefix hashes take part.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::uri::Authority;
use meridian_base::PeerId;
use meridian_protocol::peer::{Tell, parts};
use meridian_routing::Holdings;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock::{Mutex, MutexGuard};

/// How long a replica's cache contents are remembered after it left.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Most blocks remembered for all such replicas together: 4 MB.
const MOST_REMEMBERED: usize = 1 << 19;

/// Cache contents of replicas that change gateways.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The block size announced to peers; 0 for none.
    announced_block_bytes: usize,
    /// Whether the current policy uses that block size.
    compares: AtomicBool,
    /// Cache contents of replicas that have left.
    left: Mutex<VecDeque<Departed>>,
    /// By peer, the replicas that joined and that it was not asked about yet.
    joined: Vec<Joined>,
}

#[derive(Debug, Default)]
struct Joined {
    /// Whether the number has a gateway.
    is_used: AtomicBool,
    replicas: Mutex<Vec<Authority>>,
    wake: Notify,
}

#[derive(Debug)]
struct Departed {
    at: Instant,
    replica: Authority,
    holdings: Holdings,
}

impl Handover {
    /// For a gateway with `peers` peers and numbers for `all` that it may find, whose hello announces
    /// `announced_block_bytes`.
    pub(crate) fn new(announced_block_bytes: usize, peers: usize, all: usize) -> Handover {
        let joined = |at| Joined { is_used: AtomicBool::new(at < peers), ..Joined::default() };
        Handover {
            announced_block_bytes,
            compares: AtomicBool::new(true),
            left: Mutex::default(),
            joined: (0..all).map(joined).collect(),
        }
    }

    /// Another policy reads prompts in blocks of this size, or in none. Prefix hashes of another
    /// size than announced mean nothing to peers, nor theirs to this gateway, so none are exchanged
    /// while that policy is in force.
    pub(crate) fn read_in(&self, block_bytes: Option<usize>) {
        let compares = block_bytes == Some(self.announced_block_bytes);
        self.compares.store(compares, Ordering::Relaxed);
    }

    /// Whether prefix hashes of this gateway and its peers use the same block size.
    pub(crate) fn compares(&self) -> bool {
        self.compares.load(Ordering::Relaxed)
    }

    /// A replica joined: peers may know its cache contents.
    pub(crate) fn joined(&self, replica: &Authority) {
        for peer in self.joined.iter().filter(|peer| peer.is_used.load(Ordering::Relaxed)) {
            let mut replicas = peer.replicas.lock();
            if !replicas.contains(replica) {
                replicas.push(replica.clone());
            }
            drop(replicas);
            peer.wake.notify_one();
        }
    }

    /// Waits until a peer should be asked about replicas; returns them.
    pub(crate) async fn to_ask(&self, peer: PeerId) -> Vec<Authority> {
        let Some(peer) = self.joined.get(peer.index()) else {
            return std::future::pending().await;
        };
        peer.wake.notified().await;
        std::mem::take(&mut *peer.replicas.lock())
    }

    /// Replicas that a peer should not be asked about any more, since it is asked about all.
    pub(crate) fn asks_all(&self, peer: PeerId) {
        self.uses(peer, true);
    }

    /// A number has no gateway any more.
    pub(crate) fn unused(&self, peer: PeerId) {
        self.uses(peer, false);
    }

    fn uses(&self, peer: PeerId, is_used: bool) {
        if let Some(peer) = self.joined.get(peer.index()) {
            peer.is_used.store(is_used, Ordering::Relaxed);
            peer.replicas.lock().clear();
        }
    }

    fn left(&self) -> MutexGuard<'_, VecDeque<Departed>> {
        let mut left = self.left.lock();
        while left.front().is_some_and(|kept| kept.at.elapsed() > REMEMBERED) {
            left.pop_front();
        }
        left
    }

    /// Remembers the cache contents of a leaving replica, since the gateway that gets it may ask.
    /// Beyond the limit the oldest are forgotten.
    pub(crate) fn leaves(&self, replica: &Authority, holdings: Holdings) {
        if !self.compares() {
            return;
        }
        let mut left = self.left();
        left.retain(|kept| kept.replica != *replica);
        left.push_back(Departed { at: Instant::now(), replica: replica.clone(), holdings });
        let mut blocks: usize = left.iter().map(|kept| kept.holdings.blocks()).sum();
        while blocks > MOST_REMEMBERED
            && let Some(oldest) = left.pop_front()
        {
            let forgotten = oldest.holdings.blocks();
            assert!(forgotten <= blocks, "{forgotten} blocks are forgotten of {blocks}");
            blocks -= forgotten;
        }
    }

    /// The known cache contents of the replica with this host and port, as messages; none if
    /// nothing is known. `here` is the machine's knowledge, if the replica is here.
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
