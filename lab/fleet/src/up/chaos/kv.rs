//! A region of prefill and decode replicas, whose faults come at a chosen moment of a request.
//!
//! Clients with long prompts compare every answer with that of another engine. Replicas are killed or
//! suspended before and after the prefill's answer, during the transfer and in mid-stream; the path of
//! the KV is cut; the gateway is suspended between the legs for longer than a lease. Besides the
//! answers, this checks that no KV of another prompt arrives, and that no engine holds KV in the end.

use std::time::Duration;

use tokio::time::Instant;

use super::super::Options as Up;
use super::super::pools::Pools;
use super::super::world::World;
use super::checks::Checks;
use super::clients::Habits;
use crate::legs::KV_SCALE;
use crate::{Result, page};

pub(super) const PREFILL: u32 = 2;
pub(super) const DECODE: u32 = 3;
/// A link on which the KV of a long prompt takes about a second.
const ARGS: [&str; 2] = ["--kv-link-gbps", "4"];
/// A short lease, of which the engines and the gateway know.
const LEASE: Duration = Duration::from_secs(4);
/// Prompts of up to about 4,000 tokens. A fetch over a cut path gives up after 5 s.
pub(super) const HABITS: Habits =
    Habits { clients: [10, 0], head: Duration::from_secs(20), repeats: 600, by_name: false };
/// The lease, and time for the machine to notice.
const RELEASED: Duration = Duration::from_secs(4 + 6);

/// Changes the fleet to one region with pools.
pub(super) fn fleet(up: &mut Up) {
    up.regions.truncate(1);
    let region = up.regions[0].clone();
    up.pools = Some(Pools { region, prefill: PREFILL, decode: DECODE });
    up.relays_kv = true;
    up.pool_args = ARGS.map(str::to_owned).into();
    up.kv_lease = LEASE;
}

/// Waits until no engine holds KV. No KV of another prompt may have arrived. Returns the counts of
/// legs as text.
pub(super) async fn released(world: &World, checks: &mut Checks) -> Result<String> {
    let give_up = Instant::now() + RELEASED;
    let mut legs = world.legs().await?.unwrap_or_default();
    while legs.held > 0.0 && Instant::now() < give_up {
        tokio::time::sleep(Duration::from_millis(100)).await;
        legs = world.legs().await?.unwrap_or_default();
    }
    if legs.held > 0.0 {
        let held = legs.held * 100.0;
        checks.faults.push(format!(
            "engines hold {held:.2} % of their KV {RELEASED:?} after the last request"
        ));
    }
    checks.range("transfers of KV of another prompt", 0, legs.mismatches, 0);
    checks.some("transfers of KV", legs.transfers);
    Ok(page::legs(&legs, KV_SCALE, false))
}
