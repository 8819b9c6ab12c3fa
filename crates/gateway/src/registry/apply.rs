//! Applies a view of the registry to the replicas of this gateway.
//!
//! The registry decides about every replica of which it has a record, whether or not the gateway's
//! own file lists it. Replicas without a record are left alone, unless their region drains, which
//! takes no new requests anywhere. A replica that other gateways should serve drains first: it
//! takes no new requests and leaves when this gateway's requests there have ended. A replica whose
//! record was removed leaves in the same way, unless the control plane came back with another
//! store: a lost file must not empty a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use meridian_wire::registry::{Snapshot, Wanted};
use tokio::time::sleep;

use super::following::{Following, State};
use super::ours::{Ours, Standing};
use super::wanted::{Away, Want, Wants, wants};
use crate::inputs::residency::Residency;
use crate::machine::driver::Driver;
use crate::machine::policy::PolicyNow;
use crate::peers::all::Peers;
use crate::replicas::fleet::Member;
use crate::replicas::membership::Replicas;

/// Polling interval for replicas that should leave.
const LOOK: Duration = Duration::from_millis(250);

/// The parts of this gateway that a view changes.
pub(crate) struct Applied {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) policy: Arc<PolicyNow>,
    pub(crate) residency: Arc<Residency>,
    /// Receives the regions' labels.
    pub(crate) driver: Arc<Driver>,
    /// Receives the gateways that may connect.
    pub(crate) peers: Option<Arc<Peers>>,
}

/// Follows the view; never returns.
pub(super) async fn keep(following: Arc<Following>, applied: Applied) {
    let mut view = following.view.subscribe();
    loop {
        let leaving = {
            let newest = view.borrow_and_update().clone();
            let mut state = following.state();
            if let Some(newest) = newest {
                apply(&applied, &following, &newest, &mut state);
            }
            // More replicas may join meanwhile, which also have to drain.
            let drains = !state.drained.is_empty();
            drains || state.ours.values().any(|ours| ours.standing == Standing::Leaves)
        };
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = sleep(LOOK), if leaving => {}
        }
    }
}

/// Takes one step towards the state in the view.
fn apply(applied: &Applied, following: &Following, view: &Snapshot, state: &mut State) {
    applied.residency.registered(&applied.driver, view);
    if let Some(peers) = &applied.peers {
        let living = view.gateways.iter();
        peers.register(living.map(|(name, gateway)| (gateway.region.clone(), name.clone())));
    }
    let replicas = &applied.replicas;
    let mut wants = wants(view, &following.name, &following.region);
    wants.problems.extend(decide(&applied.policy, &following.region, view));
    let members = replicas.all();
    let there = |address: &str| members.iter().find(|m| m.authority.as_str() == address).cloned();
    // Forgets replicas that were removed by hand.
    state.ours.retain(|_, ours| !ours.member.gone.is_cancelled());
    let away: Vec<_> =
        state.ours.keys().filter(|a| !wants.here.contains_key(*a)).cloned().collect();
    let named = wants.away.keys().filter(|address| there(address).is_some()).cloned();
    let away: BTreeSet<_> = away.into_iter().chain(named).collect();
    for address in away {
        let how = wants.away.get(&address).copied();
        let known = state.ours.get(&address);
        if how.is_none() && known.is_some_and(|ours| ours.store != view.store) {
            continue;
        }
        if let Some(member) = there(&address) {
            let name = known.map_or_else(|| member.id.to_string(), |ours| ours.name.clone());
            let adopted = known.and_then(|ours| ours.adopted.clone());
            let standing = known.map_or(Standing::Serves, |ours| ours.standing);
            let store = view.store.clone();
            let ours = Ours { name, member, adopted, store, standing };
            if let Some(ours) = let_go(replicas, ours, how.unwrap_or(Away::Elsewhere)) {
                state.ours.insert(address, ours);
                continue;
            }
        }
        state.ours.remove(&address);
    }
    for (address, want) in std::mem::take(&mut wants.here) {
        let known = state.ours.remove(&address);
        match take(replicas, want, there(&address), known, &view.store) {
            Ok(ours) => drop(state.ours.insert(address, ours)),
            Err(problem) => drop(wants.problems.insert(problem)),
        }
    }
    drain_others(replicas, &following.region, view, state);
    tell(state, wants);
}

/// Drains replicas without a record when their region drains, and resumes them afterwards.
fn drain_others(replicas: &Replicas, region: &str, view: &Snapshot, state: &mut State) {
    let region = view.regions.get(region);
    if region.is_none_or(|region| region.wanted == Wanted::Up) {
        for member in std::mem::take(&mut state.drained).into_values() {
            replicas.resume(&member);
        }
        return;
    }
    let decided = |member: &Member| state.ours.contains_key(member.authority.as_str());
    // By name: a replica that joined under the id of one that left is not draining yet.
    let others = replicas.all().into_iter().filter(|member| !decided(member));
    let others: BTreeMap<_, _> = others.map(|member| (member.name, member)).collect();
    for (_, member) in others.iter().filter(|(name, _)| !state.drained.contains_key(*name)) {
        replicas.drain(member);
    }
    state.drained = others;
}

/// Logs problems, each one once.
fn tell(state: &mut State, wants: Wants) {
    for problem in wants.problems.difference(&state.problems) {
        tracing::warn!(problem, "what the registry asks for can't be done");
    }
    state.problems = wants.problems;
}

/// Lets a replica leave; returns it if it is still here.
fn let_go(replicas: &Replicas, mut ours: Ours, how: Away) -> Option<Ours> {
    let id = ours.member.id;
    if how == Away::Removed {
        replicas.leave(&ours.member);
        tracing::info!(replica = %id, name = ours.name, "replica removed");
        return None;
    }
    if ours.standing == Standing::Serves {
        replicas.drain(&ours.member);
        tracing::info!(replica = %id, name = ours.name, "replica drains: others serve it");
    }
    ours.standing = Standing::Leaves;
    if replicas.is_busy(&ours.member) {
        return Some(ours);
    }
    replicas.leave(&ours.member);
    tracing::info!(replica = %id, name = ours.name, "replica drained and left to others");
    None
}

/// Brings a replica to its desired state.
fn take(
    replicas: &Replicas,
    want: Want,
    there: Option<Arc<Member>>,
    known: Option<Ours>,
    store: &str,
) -> Result<Ours, String> {
    let standing = known.map_or(Standing::Serves, |ours| ours.standing);
    // A replica with a changed description leaves and joins again.
    let fits = |member: &Member| member.spec == want.spec && member.known_rtt == want.rtt;
    let (member, was) = match there {
        Some(member) if fits(&member) => (member, standing),
        there => {
            if let Some(member) = there {
                replicas.leave(&member);
            }
            let joined = replicas.join_from(want.spec, want.rtt);
            let member = joined.map_err(|error| format!("replica {}: {error}", want.name))?;
            let adopted = want.adopted.as_deref();
            tracing::info!(replica = %member.name, name = want.name, adopted, "replica taken in");
            (member, Standing::Serves)
        }
    };
    if want.drains && was == Standing::Serves {
        replicas.drain(&member);
        tracing::info!(replica = %member.name, name = want.name, "replica drains");
    }
    if !want.drains && was != Standing::Serves {
        replicas.resume(&member);
        tracing::info!(replica = %member.name, name = want.name, "replica serves again");
    }
    let standing = if want.drains { Standing::Drains } else { Standing::Serves };
    Ok(Ours { name: want.name, member, adopted: want.adopted, store: store.to_owned(), standing })
}

/// Switches to the view's policy, or to the file's if the view has none. Returns a problem if the
/// policy can't be used.
fn decide(policy: &PolicyNow, region: &str, view: &Snapshot) -> Option<String> {
    let wanted = view.regions.get(region).and_then(|region| region.policy.as_ref());
    // Possibly a policy of a later version.
    let error = policy.change(wanted).err()?;
    Some(format!("{error}; {} decides on", policy.now().name))
}
