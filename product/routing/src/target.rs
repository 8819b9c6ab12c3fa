//! Where a request is sent.

use meridian_base::{PeerId, ReplicaId};

/// Where a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A replica of the region.
    Replica(ReplicaId),
    /// Another region's gateway.
    Peer(PeerId),
}
