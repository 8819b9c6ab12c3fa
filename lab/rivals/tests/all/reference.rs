//! Compares our policies with the routers they are taken from.
//!
//! The real routers' choices were recorded, request by request (`reference/SOURCE.md` says how),
//! and here the same requests go through the routing machine. `./x test reference` makes new
//! recordings and runs these tests on them; lab/docs/experiments.md has the figures and the reasons for
//! the remaining differences.

#[path = "../reference/recording.rs"]
mod recording;
#[path = "../reference/replay.rs"]
mod replay;
#[path = "../reference/sequence.rs"]
mod sequence;

use std::collections::HashMap;

use meridian_routing::policy::Given;
use recording::{Agreement, Recording};
use replay::{Replay, Rule};
use sequence::Event;

/// Enough to see every replica that a rule may draw from five.
const MANY: usize = 256;

fn judge(router: &str, policy: &str, rule: &'static str, asks: usize) -> Agreement {
    Recording::of(router, policy).judge(&Rule { policy: rule, params: Vec::new(), asks })
}

/// cache_aware of a router, with the defaults of its command line and with thresholds that
/// ordinary load exceeds.
fn cache_aware(router: &str, spill: &'static str, asks: usize) -> [Agreement; 2] {
    let tight =
        [("cache_threshold", 0.5), ("balance_abs_threshold", 8.0), ("balance_rel_threshold", 1.1)];
    let flags = " --cache-threshold 0.5 --balance-abs-threshold 8 --balance-rel-threshold 1.1";
    [("", &[][..]), (flags, &tight[..])].map(|(flags, given)| {
        let given = given.iter().map(|(knob, value)| (*knob, Given::Number(*value)));
        let params = given.chain([("spill", Given::Word(spill.into()))]).collect();
        let rule = Rule { policy: "sglang_cache_aware", params, asks };
        Recording::of(router, &format!("cache_aware{flags}")).judge(&rule)
    })
}

// sglang-router's rule, ties included: it picks the same replica every time, except when its tree
// of characters finds a shorter match that ends within one of our blocks.
#[test]
fn sglang_router_cache_aware() {
    let [default, tight] = cache_aware("sglang-router", "fleet", 1);
    default.holds();
    tight.holds();
    assert!(default.same >= 99.0, "{default:?}: ties are broken as in the original");
}

// vllm-router's rule is the same, but on a tie of matches it takes any.
#[test]
fn vllm_router_cache_aware() {
    cache_aware("vllm-router", "fleet", 1).iter().for_each(Agreement::holds);
}

// smg skips a hot match, not a whole uneven fleet, and draws ties.
#[test]
fn smg_cache_aware() {
    cache_aware("smg", "match", MANY).iter().for_each(Agreement::holds);
}

// smg's least_load without reports of load is the least outstanding.
#[test]
fn least_load() {
    let agreement = judge("smg", "least_load", "least_outstanding", MANY);
    agreement.holds();
    assert!(agreement.options < 3.0, "{agreement:?}: loads leave little freedom");
}

// The better of two drawn: never the worst of all.
#[test]
fn power_of_two() {
    for router in ["smg", "vllm-router"] {
        judge(router, "power_of_two", "p2c", MANY).holds();
    }
}

// sglang-router counts requests for cache_aware only, so its power_of_two compares zeros, and the
// most loaded replica gets a fifth of the requests like any other. Ours compares requests.
#[test]
fn sglang_routers_power_of_two_is_blind() {
    let agreement = judge("sglang-router", "power_of_two", "p2c", MANY);
    assert!(agreement.percent < 90.0, "{agreement:?}: it compares loads");
}

// Round robin.
#[test]
fn round_robin() {
    for router in ["sglang-router", "smg", "vllm-router"] {
        let agreement = judge(router, "round_robin", "round_robin", 1);
        assert_eq!(agreement.percent, 100.0, "{router}: {agreement:?}");
    }
}

// Dynamo's costs, with blocks that requests share counted once.
#[test]
fn dynamo_kv() {
    let agreement = judge("dynamo", "kv", "dynamo_kv", MANY);
    agreement.holds();
    assert!(agreement.options < 1.5, "{agreement:?}: costs are seldom equal");
}

// Rings place keys by their own hashes, so individual replicas cannot be compared. The guarantees
// of a ring can: every request of a session goes to one replica, and sessions spread over all.
#[test]
fn consistent_hashing() {
    let policies = [("smg", "consistent_hashing"), ("vllm-router", "consistent_hash")];
    for (router, policy) in policies {
        let theirs = Recording::of(router, policy);
        let rule = Rule { policy: "consistent_hash", params: Vec::new(), asks: 1 };
        let ours = Replay::new(&rule).run(&theirs.events);
        for (whose, choices) in [(router, &theirs.choices), ("ours", &ours)] {
            let homes = homes(&theirs.events, choices);
            for replica in 0..5 {
                let share = homes.values().filter(|home| **home == replica).count() * 100;
                let share = share / homes.len();
                assert!((5..50).contains(&share), "{whose}: replica {replica} has {share} %");
            }
        }
    }
}

/// The replica that served each session's requests, which is always the same one.
fn homes(events: &[Event], choices: &[u16]) -> HashMap<u64, u16> {
    let sessions = events.iter().filter_map(|event| match event {
        Event::Arrives(arrival) => Some(arrival.session),
        Event::Ends(_) => None,
    });
    let mut homes = HashMap::new();
    for (session, choice) in sessions.zip(choices) {
        let home = *homes.entry(session).or_insert(*choice);
        assert_eq!(home, *choice, "session {session} moved");
    }
    homes
}
