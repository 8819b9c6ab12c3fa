//! What a gateway was told by probes and digests that are looked up, and what it has to tell.

mod lookup;

use std::collections::VecDeque;
use std::sync::Arc;

use meridian_base::Time;
use meridian_routing::Digest;

/// What a gateway has been shown, and what it has to show.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// By the gateway's own id of each replica.
    replicas: Vec<OfReplica>,
    /// When the first of their next reports comes, or before; zero after any change of replicas.
    soonest: Time,
    /// By the gateway's own id of each peer.
    peers: Vec<OfPeer>,
    /// Its own digests: valid from, number, content.
    digests: VecDeque<(Time, u64, Arc<Digest>)>,
    /// When the newest digest was made, and when its machine was last told anything.
    made: Time,
    told: Time,
    /// Counts what may change its newest digest.
    version: u64,
    /// When it wakes for the next message.
    wake: Option<Time>,
    /// What its digests tell from now on: requests held, and whether there may be room.
    would_tell: (u32, bool),
}

/// What a gateway was shown of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct OfReplica {
    /// When the newest report was asked for.
    asked: Time,
    /// When the next one comes; zero where that is to be worked out.
    next: Time,
}

/// What a gateway was shown of a peer.
#[derive(Clone, Copy, Debug, Default)]
struct OfPeer {
    /// The number of the newest digest.
    number: u64,
    /// When the next digest comes; zero where that is to be worked out.
    next: Time,
    /// Looking is in vain until then, as long as the peer's version stays.
    quiet: Time,
    version: u64,
}

impl Shown {
    /// The gateway knows other replicas than before.
    pub(crate) fn replicas_changed(&mut self) {
        self.soonest = Time::ZERO;
        self.replicas.iter_mut().for_each(|r| r.next = Time::ZERO);
    }

    /// As of a gateway that begins anew.
    pub(crate) fn restarted(&self) -> Shown {
        Shown { version: self.version + 1, ..Shown::default() }
    }
}
