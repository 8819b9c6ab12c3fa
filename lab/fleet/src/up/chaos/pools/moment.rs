//! Finds a replica at a given moment of a request, by the metrics of its engine.
//!
//! The moment may have passed when the fault strikes: KV takes a second on the emulated links of
//! these runs, a metrics page takes milliseconds.

use std::time::Duration;

use meridian_protocol::admin::Role;
use tokio::time::Instant;

use super::super::super::world::World;
use super::draw::Moment;
use crate::Scrape;

/// The longest wait; the fault then strikes at any moment.
const LIMIT: Duration = Duration::from_secs(6);

/// The index of a replica of this role at this moment, or of any after a while.
pub(super) async fn wait(world: &World, role: Role, moment: Moment, first: usize) -> (usize, bool) {
    let replicas = &world.regions[0].replicas;
    let of_role: Vec<usize> = (0..replicas.len()).filter(|at| replicas[*at].role == role).collect();
    let order = || of_role.iter().cycle().skip(first % of_role.len()).take(of_role.len());
    let give_up = Instant::now() + LIMIT;
    while moment != Moment::Any && Instant::now() < give_up {
        for at in order() {
            match world.client.scrape(&replicas[*at].url).await {
                Ok(page) if is_at(&page, moment) => return (*at, true),
                _ => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (of_role[first % of_role.len()], moment == Moment::Any)
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
