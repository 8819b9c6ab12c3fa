//! Informs the machine of a replica's models, capacity, distance and pool.

use meridian_base::keyed;
use meridian_routing::{Input, Pool, ReplicaSpec, Role};

use crate::machine::driver::Driver;
use crate::replicas::fleet::Fleet;
use crate::replicas::member::{Found, Member};

/// Label that names the rack of a replica.
const RACK: &str = "rack";

/// Informs the machine of a replica, as discovery found it.
pub(crate) fn announce(driver: &Driver, fleet: &Fleet, member: &Member, found: &Found) {
    let models = found.models.iter().filter_map(|name| fleet.models.intern(name)).collect();
    let spec = ReplicaSpec {
        models,
        kv_tokens: member.spec.kv_tokens.or(found.kv_tokens),
        slots: member.spec.slots.or(found.slots),
        weight: member.spec.weight,
        rtt: member.rtt(),
        place: member.place.clone(),
        pool: pool(member, found),
    };
    // A discovery still running when the replica left reports nothing.
    let there = || !member.gone.is_cancelled();
    driver.tell_if(there, Input::Joined { id: member.id, spec });
    let known = |(name, tokens): &(String, u32)| Some((fleet.models.get(name)?, *tokens));
    let contexts = found.contexts.iter().filter_map(known).collect();
    driver.tell_if(there, Input::Contexts { id: member.id, contexts });
}

/// Its place in the pools. Engines of one protocol, kind, version and revision can hand KV to each other.
/// While the version of an engine that tells one is not known, it forms no pair: vLLM refuses KV of
/// another version, at the cost of each request that tries. Without a pair a decode replica takes
/// whole requests, and a prefill replica none.
fn pool(member: &Member, found: &Found) -> Pool {
    let rack = member.spec.labels.get(RACK).map_or(0, |rack| hash(rack) as u16 | 1);
    let role = member.spec.role.0;
    let Some(alike) = alike(member, found) else {
        return match role {
            Role::Prefill => Pool { role, partner: u32::MAX, rack },
            _ => Pool { role: Role::Both, partner: 0, rack },
        };
    };
    Pool { role, partner: hash(&alike) as u32, rack }
}

/// What has to be equal in a pair; none before it is known.
fn alike(member: &Member, found: &Found) -> Option<String> {
    let (engine, protocol) = (found.engine?, member.transfer_of(found.engine)?);
    let version = match engine.version {
        Some(_) => found.version.as_deref()?,
        None => "",
    };
    let revision = member.spec.revision.as_deref().unwrap_or_default();
    Some(format!("{} {} {version} {revision}", protocol.name, engine.name))
}

fn hash(text: &str) -> u64 {
    keyed(0, text.as_bytes())
}
