//! The gateway with its sockets and the simulator make identical decisions.
//!
//! One load runs twice. Live: the gateway's own `serve` in front of three served engines, over
//! loopback, with clients that send text. Simulated: `meridian_sim::run_twin`, where the same
//! programs are hashes. Each request must be sent at the same millisecond, be dispatched to the
//! same replica with the same prefix match, find the same number of cached tokens there, and have
//! its first token and its end at the same millisecond.
//!
//! Time is paused, so it advances only when every task is idle. Its ticks are milliseconds, and the
//! order of two events within one tick is undefined. So the engines are a hundred times slower than
//! real ones and the probes as much rarer, which keeps all proportions and makes such ties rare.
//!
//! Two regions run the same way: two gateways that follow each other over mutual TLS, on a delayed
//! line, compared with two regions of the simulator. A digest is published after a change, and the
//! simulator's twin publishes at the same milliseconds as the gateway's own task
//! (`peers/bulletin.rs`), so both sides have the same state of the peer at each decision. All
//! decisions must be equal, including those about forwards and those of the peer.
//!
//! In pools each request must also have its prompt computed by the same prefill replica. The engines
//! fetch KV from each other through pipes in memory, at the rate of an emulated card
//! (`engined/src/kv/link.rs`), and the simulator moves it over a card of the same rate.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod client;
mod fleet;
mod live;
mod pool;
mod twin;
mod work;

use std::sync::Arc;

use meridian_workload::{Chat, Generator, Sessions, find_generator};

use live::Live;
use work::{Decision, Load, POOLS, Source, WHOLE};

/// Runs a load on both sides and compares them decision by decision. Returns the live side.
fn agree(policy: &str, load: &Load) -> Live {
    let ran = live::run(policy, load);
    let live = &ran.decisions;
    let simulated = twin::run(policy, load);
    let uses = |d: &Decision, r: u32| d.replica == r || d.prefill == Some(r);
    let replicas = load.replicas() * load.sources.len() as u32;
    let used = |r: u32| live.iter().any(|d| uses(d, r));
    assert!((0..replicas).all(used), "{policy} uses every replica");
    let forwards = live.iter().filter(|d| d.forwarded).count();
    assert_eq!(forwards > 0, load.sources.len() > 1, "{policy} forwards where it has a peer");
    assert!(live.iter().any(|d| d.cached > 0), "{policy} finds something cached");
    let both = live.iter().zip(&simulated).enumerate();
    for (at, (live, simulated)) in both {
        assert_eq!(live, simulated, "{policy}: decision {at}, live and simulated");
    }
    assert_eq!(live.len(), simulated.len(), "{policy}: as many decisions");
    ran
}

/// Sessions in a closed loop: 24 clients think, send and continue, and three replicas queue.
fn sessions() -> Load {
    let generator = Arc::new(Sessions { turns: 4, max_tokens: 32, ..Sessions::default() });
    // Few enough KV blocks that some are evicted.
    Load {
        kv_blocks: 1200,
        roles: WHOLE,
        sources: vec![Source::Closed { clients: 24, programs: 2, generator }],
    }
}

/// Chats of an open loop, after a system prompt that ends in the middle of a block.
fn chats() -> Load {
    let generator = Arc::new(Chat { system_bytes: 1000, max_prompt_tokens: 1500, max_tokens: 64 });
    let source = Source::Open { programs: 80, per_second: 0.025, generator };
    Load { kv_blocks: 1200, roles: WHOLE, sources: vec![source] }
}

/// Prompts of any length with little KV, so that a long one waits until capacity is promised to it.
/// At this rate no replica gets two requests at the same instant: over HTTP their order is open.
fn crowd() -> Load {
    let generator = Arc::new(Chat { system_bytes: 0, max_prompt_tokens: 4000, max_tokens: 64 });
    let source = Source::Open { programs: 80, per_second: 0.04, generator };
    Load { kv_blocks: 300, roles: WHOLE, sources: vec![source] }
}

/// Sessions in two regions, of which the first has more clients than its replicas can serve.
fn uneven() -> Load {
    let generator: Arc<Sessions> =
        Arc::new(Sessions { turns: 4, max_tokens: 32, ..Sessions::default() });
    let clients = |clients| Source::Closed { clients, programs: 2, generator: generator.clone() };
    Load { kv_blocks: 1200, roles: WHOLE, sources: vec![clients(36), clients(6)] }
}

/// Sessions with long prompts, for pools and a replica that takes whole requests.
fn pooled() -> Load {
    let generator =
        Arc::new(Sessions { turns: 3, system_bytes: 6000, max_tokens: 48, ..Sessions::default() });
    Load {
        kv_blocks: 1200,
        roles: POOLS,
        sources: vec![Source::Closed { clients: 20, programs: 2, generator }],
    }
}

/// Prompts of several documents in an open loop, so long and so close that some transfers share a
/// card. They are of different lengths: the order in which equal transfers end is open. So is that of
/// requests that a replica gets at the same instant, which a higher rate would cause.
fn documents() -> Load {
    let rag = find_generator("rag").unwrap();
    let knobs = [("retrieved", 4.0), ("document_tokens", 600.0), ("reply_tokens", 40.0)];
    let knobs = knobs.map(|(knob, value)| (knob.to_owned(), value));
    let generator: Arc<dyn Generator> = rag.build(&knobs).unwrap().into();
    let source = Source::Open { programs: 100, per_second: 0.018, generator };
    Load { kv_blocks: 2000, roles: POOLS, sources: vec![source] }
}

/// Each policy under each load is a separate test, so that they run in parallel.
macro_rules! policies {
    ($($policy:ident)*) => {
        $(mod $policy {
            // Closed loop: a decision that differs changes all later ones.
            #[test]
            fn sessions() {
                super::agree(stringify!($policy), &super::sessions());
            }

            // Open loop: arrivals do not depend on answers.
            #[test]
            fn chats() {
                super::agree(stringify!($policy), &super::chats());
            }
        })*
    };
}

policies! { meridian skywalker prefix_aware least_outstanding round_robin gorgo }

// Two regions that forward to each other over a slow line: the same requests leave their region, at
// the same times, and run on the same replicas on both sides.
#[test]
fn two_regions_with_meridian() {
    agree("meridian", &uneven());
}

#[test]
fn two_regions_with_skywalker() {
    agree("skywalker", &uneven());
}

// Held requests are released, and promised capacity, at the same moments too.
#[test]
fn promises_are_alike() {
    let Live { reasons, .. } = agree("meridian", &crowd());
    assert!(reasons.contains("promised"), "{reasons:?}");
}

/// Both sides agree about pools, where some requests are split and some are not, and some transfers
/// of the documents share a card.
fn agree_in_pools(policy: &str) {
    for load in [pooled(), documents()] {
        let Live { decisions, .. } = agree(policy, &load);
        let split = decisions.iter().filter(|d| d.prefill.is_some()).count();
        assert!((1..decisions.len()).contains(&split), "{policy} splits {split}");
    }
    let slowed = twin::slowed(policy, &documents());
    assert!(slowed > 0, "{policy}: some transfers share a card");
}

// One price for pairs and for whole requests: the same prompts cross to the same replicas at the same
// times, and the same ones stay whole.
#[test]
fn pools_with_meridian() {
    agree_in_pools("meridian");
}

// A policy that does not price pairs splits every request that goes to a decode replica.
#[test]
fn pools_with_least_outstanding() {
    agree_in_pools("least_outstanding");
}

// The comparison can fail: another policy's decisions differ.
#[test]
fn policies_differ() {
    let decisions = |policy| -> Vec<Decision> { twin::run(policy, &sessions()) };
    assert_ne!(decisions("meridian"), decisions("round_robin"));
}
