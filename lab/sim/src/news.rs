//! News: the probes and digests that a gateway has looked up, and those it has to offer.

use std::collections::VecDeque;
use std::sync::Arc;

use meridian_base::Time;
use meridian_routing::{Digest, Load};

use crate::replica::Replica;

/// The news that a gateway has been shown, and its own.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// By the gateway's own id of each replica.
    pub(crate) replicas: Vec<OfReplica>,
    /// When the first of their next reports arrives, or earlier; zero after any change of replicas.
    pub(crate) soonest: Time,
    /// By the gateway's own id of each peer.
    pub(crate) peers: Vec<OfPeer>,
    /// Its own digests: valid from, number, content.
    pub(crate) digests: VecDeque<(Time, u64, Arc<Digest>)>,
    /// When the newest digest was made, and when its machine last received an input.
    pub(crate) made: Time,
    pub(crate) last_input: Time,
    /// Counts changes that may affect its newest digest.
    pub(crate) version: u64,
    /// When it wakes for the next message.
    pub(crate) wake: Option<Time>,
    /// The contents of its future digests: requests held, and whether there may be free capacity.
    pub(crate) would_tell: (u32, bool),
}

/// The news shown of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfReplica {
    /// When the newest report was requested.
    pub(crate) asked: Time,
    /// When the next one arrives; zero if not computed yet.
    pub(crate) next: Time,
    /// The newest report and the time of the state that it describes; none if it failed.
    pub(crate) said: Option<(Time, Load)>,
}

/// When a replica's report to probes last changed. Most reports repeat the one before, and a list
/// of these is small enough for the processor's cache, unlike the replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    pub(crate) region: u32,
}

impl Change {
    pub(crate) fn new(replica: &Replica) -> Change {
        Change { at: replica.changed(), region: replica.hardware.region as u32 }
    }
}

/// The news shown of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfPeer {
    /// The number of the newest digest.
    pub(crate) number: u64,
    /// When the next digest arrives; zero if not computed yet.
    pub(crate) next: Time,
    /// Looking up before this is useless as long as the peer's version is unchanged.
    pub(crate) quiet: Time,
    pub(crate) version: u64,
}

impl Shown {
    /// The set of known replicas changed.
    pub(crate) fn replicas_changed(&mut self) {
        self.soonest = Time::ZERO;
        self.replicas.iter_mut().for_each(|r| (r.next, r.said) = (Time::ZERO, None));
    }

    /// The state of a gateway that restarts.
    pub(crate) fn restarted(&self) -> Shown {
        Shown { version: self.version + 1, ..Shown::default() }
    }
}
