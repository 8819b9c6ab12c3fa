//! Resolves a decision of the machine, which uses ids, into a replica or a peer.

use std::sync::Arc;

use meridian_base::Duration;
use meridian_routing::residency::Residence;
use meridian_routing::{self as routing, Outcome, RejectWhy, Why};

use crate::inputs::residency::Known;
use crate::machine::driver::Decision;
use crate::peers::link::Link;
use crate::replicas::fleet::Member;
use crate::request::plane::DataPlane;

/// The target of an attempt.
pub(crate) enum Target {
    Replica(Arc<Member>),
    Peer(Arc<Link>),
}

impl Target {
    /// The replica; none for a peer.
    pub(crate) fn member(&self) -> Option<Arc<Member>> {
        match self {
            Target::Replica(member) => Some(member.clone()),
            Target::Peer(_) => None,
        }
    }
}

/// A target chosen by the machine, and the reason.
pub(crate) struct Choice {
    pub(crate) target: Target,
    pub(crate) why: Why,
    /// Tokens of the prompt expected in its cache.
    pub(crate) matched: u32,
    /// The region data used for the decision, if residency rules name the request.
    pub(crate) known: Option<Arc<Known>>,
}

/// The result of resolving a decision.
pub(crate) enum Chosen {
    Target(Choice),
    /// The target is gone or no longer permitted: the machine decides again after this outcome.
    Stale(Outcome),
    Refused(RejectWhy, Duration),
}

/// Resolves a decision about a request with these residency rules.
pub(crate) fn choose(plane: &DataPlane, residence: &Residence, decision: Decision) -> Chosen {
    let (target, id, why, matched) = match decision {
        Decision::Dispatch { replica, why, matched_tokens } => {
            let member = plane.fleet.get(replica).map(Target::Replica);
            (member, routing::Target::Replica(replica), why, matched_tokens)
        }
        Decision::Forward { peer, why, matched_tokens } => {
            let link = plane.peers.as_ref().and_then(|peers| peers.link(peer)).cloned();
            (link.map(Target::Peer), routing::Target::Peer(peer), why, matched_tokens)
        }
        Decision::Reject { why, retry_after } => return Chosen::Refused(why, retry_after),
    };
    let Some(target) = target else { return Chosen::Stale(Outcome::ReplicaError) };
    if residence.is_free() {
        return Chosen::Target(Choice { target, why, matched, known: None });
    }
    let known = plane.inputs.residency.known();
    // A replica may have left since, and its id may be another's by now.
    let stands_there = match &target {
        Target::Replica(member) => known.permits(residence, &member.place),
        Target::Peer(_) => true,
    };
    match stands_there && plane.driver.lock().routing.permits(residence, id) {
        true => Chosen::Target(Choice { target, why, matched, known: Some(known) }),
        // Labels have changed since. The machine has the new ones by now, and decides by them.
        false => Chosen::Stale(Outcome::NoRoom),
    }
}
