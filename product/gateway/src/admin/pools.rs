//! The replicas of a model with one role, together: their load, the number of them that it needs,
//! and advice to the operator.
//!
//! The advice is of this moment and of this gateway's replicas. Smoothing over minutes is up to
//! autoscalers, which read the control plane's metric or this gateway's.

use std::collections::BTreeMap;

use meridian_config::TARGET;
use meridian_protocol::admin::{Pool, Replica};
use meridian_protocol::engines;
use meridian_protocol::registry::{Work, advice_for};
use meridian_routing::Role;

/// A pool while its replicas are added up.
#[derive(Default)]
struct Sum {
    pool: Pool,
    work: Work,
}

/// The pools of these replicas; `held` requests wait in the gateway's queue.
pub(super) fn pools(replicas: &[Replica], held: u32) -> Vec<Pool> {
    let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    let serving = || replicas.iter().filter(|r| r.state != "draining");
    for replica in serving() {
        let model = replica.models.first().map_or("", String::as_str);
        sums.entry((model, &replica.role)).or_default().add(replica);
    }
    let answering = serving().filter(|r| r.role != Role::Prefill.word()).count();
    let finished = sums.into_iter().map(|((model, role), sum)| {
        let share = match role == Role::Prefill.word() {
            true => 0.0,
            false => f64::from(sum.pool.replicas) / answering as f64,
        };
        sum.finish(model, role, f64::from(held) * share)
    });
    finished.collect()
}

impl Sum {
    fn add(&mut self, replica: &Replica) {
        let Sum { pool, work } = self;
        let is_up = replica.state == "up";
        pool.replicas += 1;
        pool.up += u32::from(is_up);
        pool.pending = pool.pending.saturating_add(replica.pending);
        pool.running = pool.running.saturating_add(replica.running);
        pool.front_tokens += replica.front_tokens;
        pool.held_tokens += replica.held_tokens;
        pool.moving_tokens += replica.moving_tokens;
        if is_up {
            pool.kv_used += replica.kv_used;
        }
        work.add(f64::from(replica.utilisation), replica.running, replica.pending);
    }

    fn finish(self, model: &str, role: &str, waiting: f64) -> Pool {
        let Sum { mut pool, mut work } = self;
        work.wait(waiting);
        pool.kv_used /= pool.up.max(1) as f32;
        (pool.work, pool.needed) = (work.replicas(), work.needed(TARGET));
        Pool { model: model.to_owned(), role: role.to_owned(), ..pool }
    }
}

/// What to change about the pools; empty if no replica has a role.
pub(super) fn advice(replicas: &[Replica], pools: &[Pool]) -> Vec<String> {
    let mut advice: Vec<String> = replicas.iter().filter_map(|r| unpaired(r, replicas)).collect();
    let mut models: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pool in pools {
        let part = advice_for(&pool.role, pool.up, pool.needed);
        models.entry(&pool.model).or_default().extend(part);
    }
    models.retain(|_, parts| !parts.is_empty());
    let lines = models.into_iter().map(|(model, parts)| format!("{model}: {}", parts.join(", ")));
    advice.extend(lines);
    advice
}

fn is_part(role: &str) -> bool {
    role != Role::Both.word()
}

/// Why a prefill or decode replica forms no pair.
fn unpaired(replica: &Replica, all: &[Replica]) -> Option<String> {
    if !is_part(&replica.role) || replica.models.is_empty() {
        return None;
    }
    let Replica { name, role, engine, .. } = replica;
    let Some(transfer) = &replica.transfer else {
        return Some(format!(
            "{name}: its role is {role}, and no protocol is known by which {engine} hands over KV; set its `transfer`, or remove its `role`"
        ));
    };
    let page = engines::find(engine).and_then(|engine| engine.version);
    if let (Some(page), None) = (page, &replica.version) {
        return Some(format!(
            "{name}: it forms no pair, as its version is not known; let the gateway read {page} of it"
        ));
    }
    let other = if role == Role::Prefill.word() { Role::Decode } else { Role::Prefill };
    let shares_model = |r: &&Replica| {
        r.role == other.word() && r.models.iter().any(|model| replica.models.contains(model))
    };
    let others: Vec<&Replica> = all.iter().filter(shares_model).collect();
    let version = |r: &Replica| {
        let version = r.version.clone().unwrap_or_else(|| "of an unreadable version".to_owned());
        let revision = r.revision.as_ref().map(|revision| format!(" revision {revision}"));
        version + &revision.unwrap_or_default()
    };
    let alike = |r: &&&Replica| r.transfer.as_ref() == Some(transfer) && r.engine == *engine;
    let of_version =
        |r: &&Replica| (&r.version, &r.revision) == (&replica.version, &replica.revision);
    let other = other.word();
    match others.iter().filter(alike).copied().collect::<Vec<_>>() {
        _ if others.is_empty() => Some(format!(
            "{name}: its role is {role}, and its model has no {other} replica; add one, or remove its `role`"
        )),
        alike if alike.is_empty() => Some(format!(
            "{name}: no {other} replica of its model is {engine} with {transfer}; use one protocol for both"
        )),
        alike if !alike.iter().any(of_version) => Some(format!(
            "{name}: {engine} {} pairs with no {other} replica, of which the first is {}; run equal versions",
            version(replica),
            version(alike[0]),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, role: Role) -> Replica {
        Replica {
            name: name.to_owned(),
            role: role.word().to_owned(),
            engine: "vllm".to_owned(),
            transfer: (role != Role::Both).then(|| "nixl".to_owned()),
            version: (role != Role::Both).then(|| "0.32.0".to_owned()),
            models: vec!["m".to_owned()],
            state: "up".to_owned(),
            ..Replica::default()
        }
    }

    // Two prefill replicas that are idle and one decode replica that is full with requests waiting
    // for it: one prefill replica less would do, and one more to answer.
    #[test]
    fn needs_by_role() {
        let full =
            Replica { utilisation: 0.9, running: 9, kv_used: 0.9, ..replica("r2", Role::Decode) };
        let holds = Replica { held_tokens: 500.0, ..replica("r0", Role::Prefill) };
        let replicas = [holds, replica("r1", Role::Prefill), full];
        let pools = pools(&replicas, 4);
        let by: Vec<_> = pools.iter().map(|p| (p.role.as_str(), p.up, p.needed)).collect();
        assert_eq!(by, [("decode", 1, 2), ("prefill", 2, 1)]);
        assert_eq!((pools[1].held_tokens, pools[0].kv_used), (500.0, 0.9));
        assert!((pools[0].work - (0.9 + 0.4)).abs() < 1e-6, "{pools:?}");
        assert_eq!(advice(&replicas, &pools), ["m: 1 more decode, 1 less prefill"]);
    }

    // Queued requests wait for the replicas that answer, of either role.
    #[test]
    fn queued_requests_are_shared() {
        let replicas =
            [Role::Both, Role::Decode, Role::Prefill].map(|role| replica(role.word(), role));
        let works: Vec<_> = pools(&replicas, 3).iter().map(|p| p.work).collect();
        assert_eq!(works, [1.5, 1.5, 0.0]);
    }

    // A replica without a partner is named with the reason; whole replicas get no advice.
    #[test]
    fn replicas_without_a_partner() {
        let said = |replicas: &[Replica]| advice(replicas, &[]).join("; ");
        let (p, d) = (replica("r0", Role::Prefill), replica("r1", Role::Decode));
        assert_eq!(said(&[p.clone(), d.clone()]), "");
        assert_eq!(said(&[replica("r0", Role::Both)]), "");
        assert!(
            said(std::slice::from_ref(&d))
                .starts_with("r1: its role is decode, and its model has no prefill")
        );
        let old = Replica { version: Some("0.31.0".to_owned()), ..d.clone() };
        let found = said(&[p.clone(), old]);
        assert!(
            found.contains(
                "r0: vllm 0.32.0 pairs with no decode replica, of which the first is 0.31.0"
            ),
            "{found}"
        );
        let unknown = Replica { version: None, ..d.clone() };
        assert!(said(&[p.clone(), unknown]).contains(
            "r1: it forms no pair, as its version is not known; let the gateway read /version"
        ));
        let other = Replica { transfer: Some("mooncake".to_owned()), ..d.clone() };
        assert!(said(&[p, other]).contains("r0: no decode replica of its model is vllm with nixl"));
        let none = Replica { transfer: None, engine: "tgi".to_owned(), ..d };
        assert!(said(&[none]).contains("no protocol is known by which tgi hands over KV"));
    }
}
