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

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod client;
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
    assert!((0..REPLICAS).all(|r| on(r) > 0), "{policy} uses every replica");
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
    Load { kv_blocks: 1200, source: Source::Closed { clients: 24, programs: 2, generator } }
}

/// Chats that arrive by themselves, behind a system prompt that ends in the middle of a block.
fn chats() -> Load {
    let generator = Arc::new(Chat { system_bytes: 1000, max_prompt_tokens: 1500, max_tokens: 64 });
    Load { kv_blocks: 1200, source: Source::Open { programs: 80, per_second: 0.025, generator } }
}

/// Prompts of any length where KV is short, so that a long one waits until room is promised to it.
fn crowd() -> Load {
    let generator = Arc::new(Chat { system_bytes: 0, max_prompt_tokens: 4000, max_tokens: 64 });
    Load { kv_blocks: 300, source: Source::Open { programs: 80, per_second: 0.05, generator } }
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
