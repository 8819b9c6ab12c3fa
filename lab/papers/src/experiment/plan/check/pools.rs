//! Checks a fleet's pools and racks.

use meridian_protocol::admin::Role;

use crate::experiment::spec::{Fleet, Pool};

/// Problems with the pools of a fleet, whose fields start with `name`.
pub(super) fn problems(name: &str, fleet: &Fleet) -> Vec<String> {
    let mut found = Vec::new();
    for (i, gbps) in fleet.racks.iter().enumerate() {
        found.extend(rate(&format!("{name}.racks[{i}]"), *gbps));
    }
    let pools = || fleet.groups.iter().map(|group| group.pool);
    for (i, pool) in pools().enumerate() {
        let field = format!("{name}.groups[{i}].pool");
        found.extend(pool.iter().flat_map(|pool| one(&field, pool, fleet.racks.len())));
    }
    let has = |role| pools().flatten().any(|pool| pool.role.0 == role);
    if has(Role::Prefill) && !has(Role::Decode) {
        found.push(format!(
            "{name}.groups: replicas for prefill and none for decode; add a group with `pool: \
             {{role: decode}}`"
        ));
    }
    found
}

fn one(field: &str, pool: &Pool, racks: usize) -> Vec<String> {
    let mut found: Vec<String> = rate(&format!("{field}.gbps"), pool.gbps).into_iter().collect();
    if pool.role.0 == Role::Both {
        found.push(format!("{field}.role: both; use prefill or decode, or leave the pool out"));
    }
    if let Some(rack) = pool.rack.filter(|rack| *rack >= racks) {
        found.push(format!(
            "{field}.rack: {rack}, and the fleet has {racks} racks; give it a rate in `racks`"
        ));
    }
    found
}

fn rate(field: &str, gbps: f64) -> Option<String> {
    let is_rate = gbps > 0.0 && gbps.is_finite();
    (!is_rate).then(|| format!("{field}: {gbps} is not a rate; use a number of Gb/s above 0"))
}
