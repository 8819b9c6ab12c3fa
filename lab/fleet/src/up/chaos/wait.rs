//! Waits for a state of the requests: until they have left a suspended process, or until a replica is
//! at a given moment of one.
//!
//! Once resumed a process may answer its requests, and their wait would not be visible. Only their
//! leaving is asserted, not how soon. The moment of a request may have passed when the fault strikes:
//! KV takes a second on the emulated links of these runs, a metrics page takes milliseconds.

use std::time::Duration;

use meridian_protocol::admin::{Role, Status};
use tokio::time::Instant;

use super::super::order::What;
use super::super::world::World;
use crate::Scrape;

/// Far longer than it takes to mark a replica as down and break off its answers, and shorter than
/// the minutes that a request may wait for the first byte of an answer.
const LEFT: Duration = Duration::from_secs(60);
/// The longest wait for a moment; the fault then strikes at any.
const FOUND: Duration = Duration::from_secs(6);

/// The moment of a request for which a fault waits, by the state of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Any.
    Any,
    /// A prefill engine computes a prompt.
    Computing,
    /// A prefill engine holds KV and computes nothing.
    Holding,
    /// A decode engine fetches KV.
    Fetching,
    /// A decode engine sends an answer.
    Streaming,
}

/// Waits until no gateway has a request at this replica, or at this region's gateway.
pub(super) async fn left(world: &World, what: What, name: &str) -> Result<(), String> {
    let replicas = world.regions.iter().flat_map(|region| &region.replicas);
    let url = replicas.into_iter().find(|replica| replica.name == name).map(|r| r.url.as_str());
    let give_up = Instant::now() + LEFT;
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
                "{name} has been suspended for more than {LEFT:?}, and {left} requests still \
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

/// The name of a replica of this role at this moment, and whether it was seen there; after a while, of
/// any.
pub(super) async fn moment(
    world: &World,
    role: Role,
    moment: Moment,
    first: usize,
) -> (String, bool) {
    let all = || world.regions[0].replicas.iter().filter(|replica| replica.role == role);
    let order = || all().cycle().skip(first % all().count()).take(all().count());
    let give_up = Instant::now() + FOUND;
    while moment != Moment::Any && Instant::now() < give_up {
        for replica in order() {
            match world.client.scrape(&replica.url).await {
                Ok(page) if is_at(&page, moment) => return (replica.name.clone(), true),
                _ => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let any = order().next().map(|replica| replica.name.clone());
    (any.unwrap_or_default(), moment == Moment::Any)
}

fn is_at(page: &Scrape, moment: Moment) -> bool {
    let some = |name: &str| page.sum(name).is_some_and(|value| value > 0.0);
    let deferred = || {
        let name = "vllm:num_requests_waiting_by_reason";
        page.count_with(name, &["reason=\"deferred\""]).is_some_and(|count| count > 0)
    };
    match moment {
        Moment::Any => true,
        Moment::Computing | Moment::Streaming => some("vllm:num_requests_running"),
        Moment::Holding => some("vllm:kv_cache_usage_perc") && !some("vllm:num_requests_running"),
        Moment::Fetching => deferred(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each moment is read from the counts that show it.
    #[test]
    fn moments_are_read_from_metrics() {
        let page = |running: u32, deferred: u32, used: f64| {
            Scrape::new(format!(
                "vllm:num_requests_running{{}} {running}\nvllm:kv_cache_usage_perc{{}} {used}\n\
                 vllm:num_requests_waiting_by_reason{{reason=\"capacity\"}} 3\n\
                 vllm:num_requests_waiting_by_reason{{reason=\"deferred\"}} {deferred}\n"
            ))
        };
        assert!(is_at(&page(1, 0, 0.1), Moment::Computing));
        assert!(is_at(&page(0, 0, 0.1), Moment::Holding));
        assert!(!is_at(&page(1, 0, 0.1), Moment::Holding));
        assert!(!is_at(&page(0, 0, 0.0), Moment::Holding));
        assert!(is_at(&page(0, 1, 0.1), Moment::Fetching));
        assert!(!is_at(&page(2, 0, 0.1), Moment::Fetching));
    }
}
