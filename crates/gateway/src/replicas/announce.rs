//! Informs the machine of a replica's models, capacity and distance.

use meridian_routing::{Input, ReplicaSpec};

use crate::machine::driver::Driver;
use crate::replicas::fleet::{Fleet, Found, Member};

/// Informs the machine of a replica, as discovery found it.
pub(crate) fn announce(driver: &Driver, fleet: &Fleet, member: &Member, found: &Found) {
    let models = found.models.iter().filter_map(|name| fleet.intern(name)).collect();
    let spec = ReplicaSpec {
        models,
        kv_tokens: member.spec.kv_tokens.or(found.kv_tokens),
        slots: member.spec.slots.or(found.slots),
        weight: member.spec.weight,
        rtt: member.rtt(),
        place: member.place.clone(),
        pool: Default::default(),
    };
    // A discovery still running when the replica left reports nothing.
    let there = || !member.gone.is_cancelled();
    driver.tell_if(there, Input::Joined { id: member.id, spec });
}
