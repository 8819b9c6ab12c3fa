//! The second layer of a policy: whether a request leaves the region, and for which peer.
//!
//! As published for most (SkyWalker section 3.1), a request leaves only when no replica of the region
//! is eligible, and only for a peer with room; which of those is the policy's rule.

use meridian_base::Rng;

use super::choose;
use super::pick::{Forward, Pick};
use super::view::View;
use crate::peer::PeerRow;

/// Rules between regions. Pure, as [`Policy::pick`](super::Policy::pick) is.
pub trait Forwarding {
    /// Whether the request may be better elsewhere, before the prompt is matched against what was
    /// sent there. `local` is the policy's pick; `None` when no replica here is eligible.
    fn looks_beyond(&self, view: &View<'_>, local: Option<&Pick>) -> bool {
        local.is_none() && !view.available.is_empty()
    }

    /// Chooses whether the request leaves the region, and for which of `view.reachable`, once
    /// [`Forwarding::looks_beyond`]. By default to the nearest peer with room.
    fn forward(&self, view: &View<'_>, _local: Option<&Pick>, _draw: &mut Rng) -> Option<Forward> {
        choose::nearest(view)
    }

    /// Whether [`Forwarding::forward`] may choose this peer for any request that fits nowhere here;
    /// `has_room`: the peer would be in `view.available`. False spares deciding about every queued
    /// request for such a peer.
    fn may_forward(&self, _peer: &PeerRow, has_room: bool) -> bool {
        has_room
    }

    /// Whether [`Forwarding::forward`] weighs the peers' replicas one by one and wants their matches.
    fn follows_remotes(&self) -> bool {
        false
    }

    /// How many forwards a peer may get between two digests; `None` where the rule sets no bound.
    fn credit(&self, _peer: &PeerRow) -> Option<f32> {
        None
    }

    /// Whether a forwarded request that fits nowhere is queued here; otherwise it goes back.
    fn holds_forwards(&self) -> bool {
        true
    }

    /// The peers' held requests beyond which an idle region asks for some; `None`: it never does.
    fn steals_above(&self) -> Option<u32> {
        None
    }
}

/// The default rules.
pub(super) struct ToNearest;

impl Forwarding for ToNearest {}
