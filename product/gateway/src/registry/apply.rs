//! Applies a view of the registry to the replicas of this gateway.
//!
//! The registry decides about every replica of which it has a record, whether or not the gateway's
//! own file lists it. Replicas without a record are left alone, unless their region drains, which
//! takes no new requests anywhere. A replica that other gateways should serve drains first: it
//! takes no new requests and leaves when this gateway's requests there have ended. A replica whose
//! record was removed leaves in the same way, unless the control plane came back with another
//! store: a lost file must not empty a fleet.
//!
//! Beyond `limits.replicas`, the replicas that are here stay and the others are left out, the last
//! ones by address. They join when there is room.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use meridian_protocol::registry::{Snapshot, Wanted};
use tokio::time::sleep;

use super::following::{Following, State};
use super::ours::Ours;
use super::wanted::{Away, Want, Wants, wants};
use crate::inputs::residency::Residency;
use crate::peers::all::Peers;
use crate::policy::PolicyNow;
use crate::replicas::drains::DrainReason::{Elsewhere, NotReady, Record, Region, Unlisted};
use crate::replicas::fleet::JoinError;
use crate::replicas::membership::{LOOK, Replicas};

/// Interval of looking for room for the replicas left out: a step takes time with the registry.
const ROOM: Duration = Duration::from_secs(2);

/// This gateway, as a view changes it and as its lease reports it.
pub(crate) struct Here {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) policy: Arc<PolicyNow>,
    pub(crate) residency: Arc<Residency>,
    /// Receives the gateways that may connect.
    pub(crate) peers: Option<Arc<Peers>>,
}

/// Follows the view; never returns.
pub(super) async fn keep(following: Arc<Following>, here: Arc<Here>) {
    let mut view = following.view.subscribe();
    loop {
        let newest = view.borrow_and_update().clone();
        let again = newest.and_then(|view| apply(&here, &following, &view, &mut following.state()));
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
    }
}

/// Takes one step towards the state in the view. Returns when another step may follow without a new
/// view: replicas are about to leave, more may join while the region drains, or there may be room for
/// those left out.
fn apply(
    here: &Here,
    following: &Following,
    view: &Snapshot,
    state: &mut State,
) -> Option<Duration> {
    here.residency.registered(view);
    if let Some(peers) = &here.peers {
        peers.register(view.gateways.iter());
    }
    let replicas = &here.replicas;
    let mut wants = wants(view, &following.name, &following.region);
    wants.problems.extend(decide(&here.policy, &following.region, view));
    // Forgets replicas that were removed by hand.
    state.ours.retain(|_, ours| !ours.member.gone.is_cancelled());
    let leaving = let_go(replicas, &wants, view, state);
    let mut left_out = 0;
    for (address, want) in std::mem::take(&mut wants.here) {
        state.ours.remove(&address);
        let name = want.name.clone();
        match take(replicas, want, &address, &view.store) {
            Ok(ours) => drop(state.ours.insert(address, ours)),
            // One problem, and not one for each replica: there may be thousands.
            Err(error) if error.is_full() => {
                left_out += 1;
                wants.problems.insert(error.to_string());
            }
            Err(error) => drop(wants.problems.insert(format!("replica {name}: {error}"))),
        }
    }
    let region = view.regions.get(&following.region);
    let drains = region.is_some_and(|region| region.wanted != Wanted::Up);
    drain_others(replicas, drains, state);
    tell(state, wants, left_out);
    match leaving || drains {
        true => Some(LOOK),
        false => (left_out > 0).then_some(ROOM),
    }
}

/// Drains the replicas without a record while their region drains.
fn drain_others(replicas: &Replicas, drains: bool, state: &State) {
    for member in replicas.all() {
        let is_decided = state.ours.contains_key(member.authority.as_str());
        if drains && !is_decided {
            replicas.drain(&member, Region);
        } else {
            replicas.resume(&member, Region);
        }
    }
}

/// Logs each problem once.
fn tell(state: &mut State, wants: Wants, left_out: usize) {
    for problem in wants.problems.difference(&state.problems) {
        tracing::warn!(problem, left_out, "cannot apply the registry");
    }
    (state.problems, state.left_out) = (wants.problems, left_out);
}

/// Removes or drains the replicas that this gateway should not have. Returns whether some remain.
fn let_go(replicas: &Arc<Replicas>, wants: &Wants, view: &Snapshot, state: &mut State) -> bool {
    let ours = state.ours.keys().filter(|address| !wants.here.contains_key(*address));
    let away: BTreeSet<_> = ours.chain(wants.away.keys()).cloned().collect();
    let mut leaving = false;
    for address in away {
        let known = state.ours.get(&address);
        let how = wants.away.get(&address).copied();
        // A store that lost its file has no record of the replica either.
        if how.is_none() && known.is_some_and(|ours| ours.store != view.store) {
            continue;
        }
        let Some(member) = replicas.at(&address) else { continue };
        match how {
            Some(Away::Removed) => {
                replicas.leave(&member);
                tracing::info!(replica = %member.name, url = member.spec.url, "replica removed");
            }
            Some(Away::Elsewhere) | None => replicas.let_go(&member, Elsewhere),
        }
        let known = state.ours.remove(&address);
        if member.gone.is_cancelled() {
            continue;
        }
        leaving = true;
        let (name, adopted) = match known {
            Some(ours) => (ours.name, ours.adopted),
            None => (member.name.to_string(), None),
        };
        let ours = Ours { name, member, adopted, store: view.store.clone() };
        state.ours.insert(address, ours);
    }
    leaving
}

/// Brings a replica to its desired state.
fn take(replicas: &Replicas, want: Want, address: &str, store: &str) -> Result<Ours, JoinError> {
    let (member, is_new) = replicas.place(replicas.at(address), want.spec, want.rtt)?;
    if is_new {
        let (name, adopted) = (&want.name, want.adopted.as_deref());
        tracing::info!(replica = %member.name, name, adopted, "replica added");
    }
    // The record overrides the list of a source and an earlier assignment to another gateway.
    replicas.resume(&member, Elsewhere);
    replicas.resume(&member, Unlisted);
    replicas.resume(&member, NotReady);
    if want.drains {
        replicas.drain(&member, Record);
    } else {
        replicas.resume(&member, Record);
    }
    Ok(Ours { name: want.name, member, adopted: want.adopted, store: store.to_owned() })
}

/// Switches to the view's policy, or to the file's if the view has none. Returns a problem if the
/// policy can't be used.
fn decide(policy: &PolicyNow, region: &str, view: &Snapshot) -> Option<String> {
    let wanted = view.regions.get(region).and_then(|region| region.policy.as_ref());
    // Possibly a policy of a later version.
    let error = policy.change(wanted).err()?;
    Some(format!("{error}; {} decides on", policy.now().name))
}
