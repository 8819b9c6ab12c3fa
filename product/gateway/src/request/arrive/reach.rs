//! The replicas and peers that can serve a request, before the machine applies residency rules.

use meridian_base::residency::Residence;
use meridian_base::{ModelId, PeerId, ReplicaId};

use crate::inputs::pins::Home;
use crate::inputs::residency::Residency;
use crate::peers::all::Peers;

/// Replicas and peers that can serve a request, before its rules are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Peers, one bit each.
    pub(crate) peers: u64,
    /// Whether replicas of this gateway can.
    pub(crate) here: bool,
    /// The only replica with its state.
    pub(crate) pinned: Option<ReplicaId>,
    /// Whether a peer reports the model.
    pub(crate) elsewhere: bool,
}

/// The reach of a request for `model`, whose state is at `home` if it has some.
pub(crate) fn reach(
    residency: &Residency,
    peers: Option<&Peers>,
    model: ModelId,
    home: Option<Home>,
    residence: &Residence,
) -> Reach {
    let elsewhere = peers.is_some_and(|peers| peers.models.knows(model));
    match home {
        Some(Home::At(replica)) => Reach { peers: 0, here: true, pinned: Some(replica), elsewhere },
        // No replica here can serve it, and of the peers only the one that produced the response.
        Some(Home::Away(PeerId(peer))) => {
            let may =
                peers.is_some_and(|peers| may_be_at(residency, peers, residence, PeerId(peer)));
            Reach { peers: u64::from(may) << peer, here: false, pinned: None, elsewhere }
        }
        Some(Home::Gone) | None => {
            let peers = peers.map_or(0, |peers| peers.serving(model));
            Reach { peers, here: true, pinned: None, elsewhere }
        }
    }
}

/// Whether a peer has permitted replicas, or may have them once it is connected again.
fn may_be_at(residency: &Residency, peers: &Peers, residence: &Residence, peer: PeerId) -> bool {
    let Some(link) = peers.link(peer) else { return false };
    let known = residency.known();
    residence.is_free()
        || known.permits_region(residence, link.region())
        || link.places().iter().any(|place| known.permits(residence, place))
}

/// The peers, as `region/name`, that may have permitted replicas and are not connected.
pub(crate) fn lost(residency: &Residency, peers: &Peers, residence: &Residence) -> Vec<String> {
    let mut lost = peers.lost();
    lost.retain(|peer| may_be_at(residency, peers, residence, *peer));
    lost.into_iter().map(|peer| peers.name(peer)).collect()
}
