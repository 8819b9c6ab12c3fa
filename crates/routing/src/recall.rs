//! What a held request matched when it was last looked at.
//!
//! Whenever room appears, the first of the held queue are decided about anew, most of them to be
//! held on. Their prompts and, mostly, the caches are what they were; matching again is spared where
//! nothing that counts has changed. Decisions are the same as without it, to the last bit.

use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, Time};

use crate::index::Recalled;
use crate::peer::Peer;

/// One request's.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    /// By replica.
    pub(crate) here: Recalled,
    /// By target of the snapshot.
    pub(crate) beyond: Recalled,
    /// By peer.
    told: Vec<Told>,
}

/// What a peer's digests say of the prompt.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The peer's newest digest when it was asked.
    heard: Option<(u64, Time)>,
    prefix: Option<(ReplicaId, u32)>,
    /// Past this the peer's word says nothing any more.
    until: Time,
}

impl Recall {
    /// [`Peer::told_of`], asked anew only after another digest or when the answer is too old.
    pub(crate) fn told(
        &mut self,
        now: Time,
        id: PeerId,
        peer: &Peer,
        blocks: &[u64],
    ) -> Option<(ReplicaId, u32)> {
        if self.told.len() <= id.index() {
            self.told.resize(id.index() + 1, Told::default());
        }
        let known = &mut self.told[id.index()];
        if known.heard.is_none() || known.heard != peer.heard() || now > known.until {
            let (prefix, until) = match peer.told_of(now, blocks) {
                Some(told) => (Some((told.replica, told.blocks)), told.until),
                // What is not known, or too old, does not become known by waiting.
                None => (None, Time::MAX),
            };
            *known = Told { heard: peer.heard(), prefix, until };
        }
        let fresh = || peer.told_of(now, blocks).map(|t| (t.replica, t.blocks));
        debug_assert_eq!(known.prefix, fresh(), "only digests and age change what {id} told");
        known.prefix
    }
}
