//! The replicas of a model with one role, together: their load, the number of them that it needs,
//! and advice to the operator.
//!
//! The advice is of this moment and of this gateway's replicas. Smoothing over minutes is up to
//! autoscalers, which read the control plane's metric or this gateway's.

use std::collections::{BTreeMap, BTreeSet};

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

/// The pools of these replicas. `held` has the queued requests of each model; `expected` models have a
/// pool without a replica, too.
pub(super) fn pools(
    replicas: &[Replica],
    held: &BTreeMap<String, u32>,
    expected: &BTreeSet<String>,
) -> Vec<Pool> {
    let serving: Vec<&Replica> = replicas.iter().filter(|r| r.state != "draining").collect();
    let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    for replica in &serving {
        sums.entry(key(replica)).or_default().add(replica);
    }
    let mut absent: BTreeMap<&str, u32> = expected.iter().map(|model| (&**model, 0)).collect();
    absent.retain(|model, _| !serving.iter().any(|r| serves(r, model)));
    for (model, held) in held {
        let answers = |r: &&&Replica| serves(r, model) && r.role != Role::Prefill.word();
        let answering: Vec<&&Replica> = serving.iter().filter(answers).collect();
        for replica in &answering {
            let share = f64::from(*held) / answering.len() as f64;
            sums.entry(key(replica)).or_default().work.wait(share);
        }
        if answering.is_empty() {
            *absent.entry(model).or_default() += held;
        }
    }
    let mut pools: Vec<Pool> =
        sums.into_iter().map(|((model, role), sum)| sum.finish(model, role)).collect();
    pools.extend(absent.into_iter().map(|(model, held)| empty(model, held)));
    pools.sort_by(|a, b| (&a.model, &a.role).cmp(&(&b.model, &b.role)));
    pools
}

/// The pool of a replica: its first model and its role.
fn key(replica: &Replica) -> (&str, &str) {
    (replica.models.first().map_or("", String::as_str), &replica.role)
}

fn serves(replica: &Replica, model: &str) -> bool {
    replica.models.iter().any(|served| served == model)
}

/// The pool of a model without a replica. What one takes is not known before it runs, so it needs one
/// replica for any number of requests. No replica tells a role.
fn empty(model: &str, held: u32) -> Pool {
    let (model, role) = (model.to_owned(), Role::Both.word().to_owned());
    Pool { model, role, needed: held.min(1), ..Pool::default() }
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

    fn finish(self, model: &str, role: &str) -> Pool {
        let Sum { mut pool, work } = self;
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
        let pools = pools(&replicas, &queued(4), &BTreeSet::new());
        let by: Vec<_> = pools.iter().map(|p| (p.role.as_str(), p.up, p.needed)).collect();
        assert_eq!(by, [("decode", 1, 2), ("prefill", 2, 1)]);
        assert_eq!((pools[1].held_tokens, pools[0].kv_used), (500.0, 0.9));
        assert!((pools[0].work - (0.9 + 0.4)).abs() < 1e-6, "{pools:?}");
        assert_eq!(advice(&replicas, &pools), ["m: 1 more decode, 1 less prefill"]);
    }

    fn queued(held: u32) -> BTreeMap<String, u32> {
        [("m".to_owned(), held)].into()
    }

    // Queued requests wait for the replicas that answer, of either role, and of their own model.
    #[test]
    fn queued_requests_are_shared() {
        let replicas =
            [Role::Both, Role::Decode, Role::Prefill].map(|role| replica(role.word(), role));
        let held = [("m".to_owned(), 3), ("z".to_owned(), 7)].into();
        let pools = pools(&replicas, &held, &BTreeSet::new());
        let works: Vec<_> = pools.iter().map(|p| p.work).collect();
        assert_eq!(works, [1.5, 1.5, 0.0, 0.0]);
        assert_eq!((pools[3].model.as_str(), pools[3].needed), ("z", 1));
    }

    // A configured model has a pool without a replica; it needs none until a request waits, and then
    // one. A replica that drains is none.
    #[test]
    fn models_without_a_replica() {
        let drains = Replica { state: "draining".to_owned(), ..replica("r0", Role::Both) };
        let expected: BTreeSet<String> = ["m".to_owned(), "z".to_owned()].into();
        let shown = |replicas: &[Replica], held| -> Vec<(String, u32, u32)> {
            let pools = pools(replicas, &held, &expected);
            pools.into_iter().map(|p| (p.model, p.replicas, p.needed)).collect()
        };
        let (m, z) = ("m".to_owned(), "z".to_owned());
        let idle = [(m.clone(), 0, 0), (z.clone(), 0, 0)];
        assert_eq!(shown(std::slice::from_ref(&drains), BTreeMap::new()), idle);
        let needed = [(m.clone(), 0, 1), (z.clone(), 0, 0)];
        assert_eq!(shown(&[drains], queued(50)), needed);
        assert_eq!(shown(&[replica("r1", Role::Both)], queued(0)), [(m, 1, 1), (z, 0, 0)]);
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
