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

use meridian_routing::{Config as Routing, Input};
use meridian_wire::config::Gateway as Config;
use meridian_wire::registry::{Snapshot, Wanted};
use tokio::time::sleep;

use super::wanted::{Away, Want, Wants, wants};
use super::{Following, State};
use crate::replicas::discovery;
use crate::replicas::fleet::Member;
use crate::shared::Shared;

/// Between two looks at replicas that are to leave.
const LOOK: Duration = Duration::from_millis(250);

/// A replica here that the registry decides about.
pub(super) struct Ours {
    /// Its name in the registry.
    pub(super) name: String,
    pub(super) member: Arc<Member>,
    /// Whose it is, where it is another region's.
    pub(super) adopted: Option<String>,
    /// The store whose record it is.
    store: String,
    standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Serves,
    /// Stays, and takes nothing new.
    Drains,
    /// Drains, then leaves.
    Leaves,
}

/// Follows the view, for ever.
pub(super) async fn keep(shared: Arc<Shared>, following: Arc<Following>) {
    let mut view = following.view.subscribe();
    loop {
        let leaving = {
            let newest = view.borrow_and_update().clone();
            let mut state = following.state();
            if let Some(newest) = newest {
                apply(&shared, &following, &newest, &mut state);
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
fn apply(shared: &Arc<Shared>, following: &Following, view: &Snapshot, state: &mut State) {
    shared.residency.registered(&shared.driver, view);
    if let Some(peers) = &shared.peers {
        let living = view.gateways.iter();
        peers.register(living.map(|(name, gateway)| (gateway.region.clone(), name.clone())));
    }
    let mut wants = wants(view, &following.name, &following.region);
    wants.problems.extend(decide(shared, view, state));
    let members = shared.fleet.all();
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
            if let Some(ours) = let_go(shared, ours, how.unwrap_or(Away::Elsewhere)) {
                state.ours.insert(address, ours);
                continue;
            }
        }
        state.ours.remove(&address);
    }
    for (address, want) in std::mem::take(&mut wants.here) {
        let known = state.ours.remove(&address);
        match take(shared, want, there(&address), known, &view.store) {
            Ok(ours) => drop(state.ours.insert(address, ours)),
            Err(problem) => drop(wants.problems.insert(problem)),
        }
    }
    drain_others(shared, view, state);
    tell(state, wants);
}

/// Drains with their region the replicas that the registry has no record of, and brings them back.
fn drain_others(shared: &Shared, view: &Snapshot, state: &mut State) {
    let region = view.regions.get(&shared.config.region);
    if region.is_none_or(|region| region.wanted == Wanted::Up) {
        for member in std::mem::take(&mut state.drained).into_values() {
            let there = || !member.gone.is_cancelled();
            shared.driver.tell_if(there, Input::Resumed(member.id));
        }
        return;
    }
    let decided = |member: &Member| state.ours.contains_key(member.authority.as_str());
    // By name: one that joined under the id of one that left has not been told to drain.
    let others = shared.fleet.all().into_iter().filter(|member| !decided(member));
    let others: BTreeMap<_, _> = others.map(|member| (member.name, member)).collect();
    for (_, member) in others.iter().filter(|(name, _)| !state.drained.contains_key(*name)) {
        shared.driver.tell(Input::Draining(member.id));
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
fn let_go(shared: &Arc<Shared>, mut ours: Ours, how: Away) -> Option<Ours> {
    let id = ours.member.id;
    if how == Away::Removed {
        discovery::leave(shared, &ours.member);
        tracing::info!(replica = %id, name = ours.name, "replica removed");
        return None;
    }
    if ours.standing == Standing::Serves {
        shared.driver.tell(Input::Draining(id));
        tracing::info!(replica = %id, name = ours.name, "replica drains: others serve it");
    }
    ours.standing = Standing::Leaves;
    if discovery::is_busy(shared, &ours.member) {
        return Some(ours);
    }
    discovery::leave(shared, &ours.member);
    tracing::info!(replica = %id, name = ours.name, "replica drained and left to others");
    None
}

/// Brings a replica to where it is to be.
fn take(
    shared: &Arc<Shared>,
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
                discovery::leave(shared, &member);
            }
            let joined = discovery::join_from(shared, want.spec, want.rtt);
            let member = joined.map_err(|error| format!("replica {}: {error}", want.name))?;
            let adopted = want.adopted.as_deref();
            tracing::info!(replica = %member.name, name = want.name, adopted, "replica taken in");
            (member, Standing::Serves)
        }
    };
    if want.drains && was == Standing::Serves {
        shared.driver.tell(Input::Draining(member.id));
        tracing::info!(replica = %member.name, name = want.name, "replica drains");
    }
    if !want.drains && was != Standing::Serves {
        shared.driver.tell(Input::Resumed(member.id));
        tracing::info!(replica = %member.name, name = want.name, "replica serves again");
    }
    let standing = if want.drains { Standing::Drains } else { Standing::Serves };
    Ok(Ours { name: want.name, member, adopted: want.adopted, store: store.to_owned(), standing })
}

/// Lets the machine decide by the policy that the view asks for, by the file's where it asks for
/// none. What can't be done is returned.
fn decide(shared: &Shared, view: &Snapshot, state: &mut State) -> Option<String> {
    let own = &shared.config.policy;
    let region = view.regions.get(&shared.config.region);
    let wanted = region.and_then(|region| region.policy.as_ref()).unwrap_or(own);
    let now = state.policy.as_ref().unwrap_or(own);
    if wanted == now {
        return None;
    }
    let (name, now) = (&wanted.name, &now.name);
    let config = Config { policy: wanted.clone(), ..shared.config.clone() };
    let Routing { policy, params, admission, .. } = match config.routing() {
        Ok(routing) => routing,
        // Of a later version, perhaps.
        Err(error) => return Some(format!("{error}; {now} decides on")),
    };
    if let Some(peers) = &shared.peers {
        peers.read_in((policy.index)(&params).map(|spec| spec.block_bytes));
    }
    shared.reading.change(policy, &params);
    shared.driver.tell(Input::Configured { policy, params, admission });
    tracing::info!(policy = name, before = now, "the policy or its weights changed");
    state.policy = (wanted != own).then(|| wanted.clone());
    None
}
