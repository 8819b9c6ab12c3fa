//! The gateway with its sockets and the simulator decide alike.
//!
//! One load runs twice. Live: the gateway's own `serve` in front of three served engines, over
//! loopback, with clients that send text. Simulated: `meridian_sim::run_twin`, where the same
//! programs are hashes. Each request must be sent at the same millisecond, be dispatched to the
//! same replica with the same prefix match, find as much cached there, and show its first token
//! and its end at the same millisecond.
//!
//! Time is paused, so it passes only when nobody has anything left to do. Its ticks are
//! milliseconds, and two events within one tick have no order that both sides could agree on; so
//! the engines are a hundred times slower than real ones and the probes as much rarer, which
//! changes no proportion and makes such meetings rare.
//!
//! Two regions run the same way: two gateways that follow each other over mutual TLS, on a line that
//! takes its time, beside two regions of the simulator. A digest is published when something changed,
//! and the simulator's twin publishes at the same milliseconds as the gateway's own task
//! (`peers/bulletin.rs`), so both sides know as much of the peer at each decision. All decisions must
//! be equal, those about forwards and those of the peer included.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod client;
mod fleet;
mod live;
mod twin;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

use live::Live;
use meridian_workload::{Chat, Sessions};
use work::{Decision, Load, REPLICAS, Source};

/// Runs a load on both sides and compares them decision by decision. Returns what the live gateway
/// gave as reasons.
fn agree(policy: &str, load: &Load) -> BTreeSet<String> {
    let Live { decisions: live, reasons } = live::run(policy, load);
    let simulated = twin::run(policy, load);
    let on = |r: u32| live.iter().filter(|d| d.replica == r).count();
    let replicas = REPLICAS * load.sources.len() as u32;
    assert!((0..replicas).all(|r| on(r) > 0), "{policy} uses every replica");
    let forwards = live.iter().filter(|d| d.forwarded).count();
    assert_eq!(forwards > 0, load.sources.len() > 1, "{policy} forwards where it has a peer");
    assert!(live.iter().any(|d| d.cached > 0), "{policy} finds something cached");
    let both = live.iter().zip(&simulated).enumerate();
    for (at, (live, simulated)) in both {
        assert_eq!(live, simulated, "{policy}: decision {at}, live and simulated");
    }
    assert_eq!(live.len(), simulated.len(), "{policy}: as many decisions");
    reasons
}

/// Sessions in a closed loop: 24 clients think, ask, and ask on, three replicas queue.
fn sessions() -> Load {
    let generator = Arc::new(Sessions { turns: 4, max_tokens: 32, ..Sessions::default() });
    // Little enough KV to evict.
    Load { kv_blocks: 1200, sources: vec![Source::Closed { clients: 24, programs: 2, generator }] }
}

/// Chats that arrive by themselves, behind a system prompt that ends in the middle of a block.
fn chats() -> Load {
    let generator = Arc::new(Chat { system_bytes: 1000, max_prompt_tokens: 1500, max_tokens: 64 });
    let source = Source::Open { programs: 80, per_second: 0.025, generator };
    Load { kv_blocks: 1200, sources: vec![source] }
}

/// Prompts of any length where KV is short, so that a long one waits until room is promised to it.
fn crowd() -> Load {
    let generator = Arc::new(Chat { system_bytes: 0, max_prompt_tokens: 4000, max_tokens: 64 });
    let source = Source::Open { programs: 80, per_second: 0.05, generator };
    Load { kv_blocks: 300, sources: vec![source] }
}

/// Sessions in two regions, of which the first has more clients than its replicas can serve.
fn uneven() -> Load {
    let generator: Arc<Sessions> =
        Arc::new(Sessions { turns: 4, max_tokens: 32, ..Sessions::default() });
    let clients = |clients| Source::Closed { clients, programs: 2, generator: generator.clone() };
    Load { kv_blocks: 1200, sources: vec![clients(36), clients(6)] }
}

/// Each policy under each load is a test of its own, so that they run side by side.
macro_rules! policies {
    ($($policy:ident)*) => {
        $(mod $policy {
            // Closed loop: a decision that differs changes all that follow.
            #[test]
            fn sessions() {
                super::agree(stringify!($policy), &super::sessions());
            }

            // Open loop: arrivals that no answer moves.
            #[test]
            fn chats() {
                super::agree(stringify!($policy), &super::chats());
            }
        })*
    };
}

policies! { meridian skywalker prefix_aware least_outstanding round_robin gorgo }

// Two regions that forward to each other over a slow line: which requests leave their region, when,
// and where they run is the same on both sides.
#[test]
fn two_regions_with_meridian() {
    agree("meridian", &uneven());
}

#[test]
fn two_regions_with_skywalker() {
    agree("skywalker", &uneven());
}

// Held requests are released, and promised room, at the same moments too.
#[test]
fn promises_are_alike() {
    let reasons = agree("meridian", &crowd());
    assert!(reasons.contains("promised"), "{reasons:?}");
}

// The comparison can fail: another policy's decisions are not these.
#[test]
fn policies_differ() {
    let decisions = |policy| -> Vec<Decision> { twin::run(policy, &sessions()) };
    assert_ne!(decisions("meridian"), decisions("round_robin"));
}
