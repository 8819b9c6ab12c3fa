//! Where a request may go: the masks that the machine reads.
//!
//! This is the one place where they are made. A peer is permitted when it serves the model; a
//! stateful request is permitted only where its state is. There are no rules of residency yet, so
//! every place is permitted.

use meridian_base::{ModelId, PeerId, ReplicaId};

use crate::pins::Home;
use crate::shared::Shared;

/// A request's masks, and the replica that it is pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permitted {
    pub(crate) peers: u64,
    pub(crate) places: u64,
    pub(crate) pinned: Option<ReplicaId>,
}

/// Where a request for `model` may go, whose state lives at `home` if it has some.
pub(crate) fn permitted(shared: &Shared, model: ModelId, home: Option<Home>) -> Permitted {
    let anywhere = shared.peers.as_ref().map_or(0, |peers| peers.models.serving(model));
    match home {
        Some(Home::At(replica)) => Permitted { peers: 0, places: u64::MAX, pinned: Some(replica) },
        // Nobody here may serve it, and of the peers only the one that gave the answer.
        Some(Home::Away(PeerId(peer))) => Permitted { peers: 1 << peer, places: 0, pinned: None },
        Some(Home::Gone) | None => Permitted { peers: anywhere, places: u64::MAX, pinned: None },
    }
}
