//! Waits for requests to leave a suspended process.
//!
//! Once resumed it may answer them, and the wait would not be visible. The test asserts only that
//! they leave, not how soon.

use std::time::Duration;

use meridian_protocol::admin::Status;
use tokio::time::Instant;

use super::super::order::What;
use super::super::world::World;

/// Far longer than it takes to mark a replica as down and break off its answers, and shorter than
/// the minutes that a request may wait for the first byte of an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until no gateway has a request at this replica, or at this region's gateway.
pub(super) async fn wait(world: &World, what: What, name: &str) -> Result<(), String> {
    let replicas = world.regions.iter().flat_map(|region| &region.replicas);
    let url = replicas.into_iter().find(|replica| replica.name == name).map(|r| r.url.as_str());
    let give_up = Instant::now() + LIMIT;
    loop {
        let seen = world.look().await;
        let waiting = |status: &Status| match what {
            What::Replica => at_replica(status, url.unwrap_or_default()),
            _ => at_peer(status, name),
        };
        let left: u64 = seen.iter().filter_map(|seen| seen.status.as_ref()).map(waiting).sum();
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > give_up {
            return Err(format!(
                "{name} has been suspended for more than {LIMIT:?}, and {left} requests still \
                 wait for it"
            ));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn at_replica(status: &Status, url: &str) -> u64 {
    let there = status.replicas.iter().filter(|replica| replica.url == url);
    there.map(|replica| u64::from(replica.outstanding) + u64::from(replica.running)).sum()
}

fn at_peer(status: &Status, region: &str) -> u64 {
    status.peers.iter().filter(|peer| peer.region == region).map(|peer| peer.sent.in_flight).sum()
}
