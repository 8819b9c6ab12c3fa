//! The decision about a request: a target, the queue, or a refusal.

use meridian_base::ReplicaId;

use crate::active::Active;
use crate::policy::{Chosen, Forward, Pick};
use crate::target::Target;
use crate::why::{RejectWhy, Why};

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    Send(Sending),
    Hold,
    Refuse(RejectWhy),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sending {
    Replica(Chosen),
    Peer(Forward),
}

impl Sending {
    pub(crate) fn score(&self) -> Option<f64> {
        match self {
            Sending::Replica(to) => to.score,
            Sending::Peer(to) => to.score,
        }
    }
}

impl Choice {
    /// The decision if only the first layer is considered.
    pub(crate) fn of(local: Result<Pick, Choice>) -> Choice {
        match local {
            Ok(Pick::Replica(chosen)) => Choice::Send(Sending::Replica(chosen)),
            Ok(Pick::Wait) => Choice::Hold,
            Err(choice) => choice,
        }
    }

    /// The replica that computes the prompt, if it is another one.
    pub(crate) fn prefill(&self) -> Option<ReplicaId> {
        match self {
            Choice::Send(Sending::Replica(to)) => to.prefill,
            _ => None,
        }
    }

    pub(crate) fn pick(&self) -> Option<(Target, Why)> {
        match self {
            Choice::Send(Sending::Replica(to)) => Some((Target::Replica(to.replica), to.why)),
            Choice::Send(Sending::Peer(to)) => Some((Target::Peer(to.peer), to.why)),
            Choice::Hold | Choice::Refuse(_) => None,
        }
    }
}

/// Handles a request that no replica can serve now. Residency rules leave a request few candidates,
/// so a passing fault may leave it none: a briefly lost peer, a replica that is down or drains, a
/// failed attempt. The request then waits as it would for capacity. It is refused as `NotPermitted`
/// only if its rules permit no place that the configuration or the registry knows. The same holds for
/// a request whose model has no replica now, if one may come.
pub(super) fn refusal(active: &Active, why: RejectWhy) -> Choice {
    use RejectWhy::{NoReplica, NotPermitted, PinnedGone, UnknownModel};
    let Active { request, permitted, .. } = active;
    let nothing = matches!(why, NoReplica | NotPermitted | UnknownModel);
    if nothing && !request.here {
        let is_forbidden = request.peers == 0;
        return Choice::Refuse(if is_forbidden { NotPermitted } else { PinnedGone });
    }
    let awaited = request.awaited || request.scale_from_zero.is_some();
    let may_come = active.is_restricted() || awaited;
    let waits = may_come && request.pinned.is_none() && request.hops == 0;
    match why {
        _ if !waits || !nothing => Choice::Refuse(why),
        _ if !permitted.somewhere => Choice::Refuse(NotPermitted),
        UnknownModel if request.peers == 0 && !awaited => Choice::Refuse(why),
        _ => Choice::Hold,
    }
}
