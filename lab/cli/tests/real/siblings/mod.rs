//! Three gateways of one region while one of them restarts, dies, stands still or is cut off.

mod clients;
mod limits;
mod silent;
mod trio;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use meridian_fleet::EngineCounts;
use meridian_protocol::admin::Status;

use self::clients::Clients;
use self::trio::{GATEWAYS, Trio, of_siblings};
use crate::common::LIMIT;

/// Requests that end before the ratio is measured, and of each measurement.
const WARM: u64 = 600;
const MEASURED: u64 = 1500;

/// The share of prompt tokens that engines had cached, over the next requests.
async fn hit_ratio(trio: &Trio, requests: u64) -> f64 {
    let before = trio.engines().await;
    let mut now = before;
    let (done, start) = (|counts: &EngineCounts| counts.done.expect("counted"), Instant::now());
    while done(&now) < done(&before) + requests {
        assert!(start.elapsed() < LIMIT, "{now:?} after {before:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        now = trio.engines().await;
    }
    let cached = |counts: &EngineCounts| counts.cached_tokens.expect("counted");
    (cached(&now) - cached(&before)) as f64 / (now.prompt_tokens - before.prompt_tokens) as f64
}

// Three gateways restart one after the other under load. Afterwards as large a share of the prompt tokens
// is cached as before, within two points: each got what the others know. No request is lost, and nothing
// stays in a count.
#[tokio::test]
async fn a_rolling_restart_keeps_the_hit_ratio() {
    let mut trio = Trio::start(3, 16.0, "").await;
    let clients = Clients::start(24, &trio.urls());
    hit_ratio(&trio, WARM).await;
    let before = hit_ratio(&trio, MEASURED).await;
    for at in 0..GATEWAYS {
        trio.restart(at).await;
    }
    let after = hit_ratio(&trio, MEASURED).await;
    let ends = clients.end().await;
    println!("{:.1} % cached before, {:.1} % after: {ends:?}", 100.0 * before, 100.0 * after);
    assert!(after > before - 0.02, "{before} before, {after} after");
    assert_eq!(ends.sent.load(Relaxed), ends.whole.load(Relaxed), "{ends:?}");
    for at in 0..GATEWAYS {
        let idle = |s: &Status| s.requests.in_flight == 0 && of_siblings(s) == 0;
        trio.until(at, "nothing is in flight", idle).await;
    }
}
