//! The second layer of a policy: whether to forward a request to a peer, and to which one.
//!
//! In most publications (SkyWalker section 3.1), a request is forwarded only when no replica of the
//! region is eligible, and only to a peer with free capacity; the policy chooses which.

use meridian_base::Rng;

use super::choose;
use super::pick::{Forward, Pick};
use super::view::View;
use crate::peer::PeerRow;

/// Rules for forwarding between regions. Pure, as [`Policy::pick`](super::Policy::pick) is.
pub trait Forwarding {
    /// Whether a peer may be the better choice, before the prompt is matched against prompts sent
    /// there. `local` is the policy's pick; `None` if no replica here is eligible.
    fn looks_beyond(&self, view: &View<'_>, local: Option<&Pick>) -> bool {
        local.is_none() && !view.available.is_empty()
    }

    /// Chooses whether to forward the request, and to which of `view.reachable`, once
    /// [`Forwarding::looks_beyond`] is true. The default is the nearest peer with free capacity.
    fn forward(&self, view: &View<'_>, _local: Option<&Pick>, _draw: &mut Rng) -> Option<Forward> {
        choose::nearest(view)
    }

    /// Whether [`Forwarding::forward`] may choose this peer for any request that fits nowhere here;
    /// `has_room`: the peer would be in `view.available`. Returning false saves deciding about
    /// every queued request for a peer that would not get it.
    fn may_forward(&self, _peer: &PeerRow, has_room: bool) -> bool {
        has_room
    }

    /// Whether [`Forwarding::forward`] compares the peers' replicas one by one and needs their
    /// matches.
    fn follows_replicas(&self) -> bool {
        false
    }

    /// KV tokens that forwards to a peer may need between two of its digests; `None` without a bound.
    fn credit(&self, _peer: &PeerRow) -> Option<f32> {
        None
    }

    /// Whether a forwarded request that fits nowhere is queued here; if not, it goes back.
    fn holds_forwards(&self) -> bool {
        true
    }

    /// An idle region asks a peer for work when the peer holds more requests than this; `None` for
    /// never.
    fn steals_above(&self) -> Option<u32> {
        None
    }
}

/// The default rules.
pub(super) struct ToNearest;

impl Forwarding for ToNearest {}
