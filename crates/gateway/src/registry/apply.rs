//! Makes the replicas here those that the view asks for.
//!
//! Where the registry has a record of a replica, it decides, whether this gateway's own file names
//! the replica or not; a replica that it has no record of is left alone, but for a region that drains,
//! which takes nothing new anywhere. One that others are to
//! serve drains first: it takes nothing new and leaves when what this gateway sent there has ended.
//! A record that is no longer there lets its replica go in the same way, except where the control
//! plane came back with another store: a lost file shall not empty a fleet.

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

/// Between two looks at replicas that are to leave.
const LOOK: Duration = Duration::from_millis(250);

/// What a view changes at this gateway.
pub(crate) struct Applied {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) policy: Arc<PolicyNow>,
    pub(crate) residency: Arc<Residency>,
    /// Told of regions' labels.
    pub(crate) driver: Arc<Driver>,
    /// Told which gateways may connect.
    pub(crate) peers: Option<Arc<Peers>>,
}

/// Follows the view, for ever.
pub(super) async fn keep(following: Arc<Following>, applied: Applied) {
    let mut view = following.view.subscribe();
    loop {
        let leaving = {
            let newest = view.borrow_and_update().clone();
            let mut state = following.state();
            if let Some(newest) = newest {
                apply(&applied, &following, &newest, &mut state);
            }
            // Others may be found meanwhile, which drain as well.
            let drains = !state.drained.is_empty();
            drains || state.ours.values().any(|ours| ours.standing == Standing::Leaves)
        };
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = sleep(LOOK), if leaving => {}
        }
    }
}

/// One step towards what the view asks for.
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
    // One that somebody took out by hand is not here any more.
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

/// Drains with their region the replicas that the registry has no record of, and brings them back.
fn drain_others(replicas: &Replicas, region: &str, view: &Snapshot, state: &mut State) {
    let region = view.regions.get(region);
    if region.is_none_or(|region| region.wanted == Wanted::Up) {
        for member in std::mem::take(&mut state.drained).into_values() {
            replicas.resume(&member);
        }
        return;
    }
    let decided = |member: &Member| state.ours.contains_key(member.authority.as_str());
    // By name: one that joined under the id of one that left has not been told to drain.
    let others = replicas.all().into_iter().filter(|member| !decided(member));
    let others: BTreeMap<_, _> = others.map(|member| (member.name, member)).collect();
    for (_, member) in others.iter().filter(|(name, _)| !state.drained.contains_key(*name)) {
        replicas.drain(member);
    }
    state.drained = others;
}

/// Tells what can't be done, each thing once.
fn tell(state: &mut State, wants: Wants) {
    for problem in wants.problems.difference(&state.problems) {
        tracing::warn!(problem, "what the registry asks for can't be done");
    }
    state.problems = wants.problems;
}

/// Lets a replica go; what comes back is still here.
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

/// Brings a replica to where it is to be.
fn take(
    replicas: &Replicas,
    want: Want,
    there: Option<Arc<Member>>,
    known: Option<Ours>,
    store: &str,
) -> Result<Ours, String> {
    let standing = known.map_or(Standing::Serves, |ours| ours.standing);
    // One that is described otherwise joins anew.
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

/// Decides by the policy that the view asks for, by the file's where it asks for none. A policy that
/// can't be used is returned as a problem.
fn decide(policy: &PolicyNow, region: &str, view: &Snapshot) -> Option<String> {
    let wanted = view.regions.get(region).and_then(|region| region.policy.as_ref());
    // One of a later version, perhaps.
    let error = policy.change(wanted).err()?;
    Some(format!("{error}; {} decides on", policy.now().name))
}
