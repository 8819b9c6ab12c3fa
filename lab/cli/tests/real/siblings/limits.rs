//! A tenant's limit over three gateways, also while one of them is killed and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use meridian_fleet::{Client, Result, Stream};
use tokio::task::JoinSet;

use super::trio::{GATEWAYS, Trio, chat};
use crate::common::text;

/// The key of the tenant, and its hash.
const KEY: &str = "acme-of-this-test";
const HASH: &str = "sha256:1940549516da3a1cce732e760461a01a0ac0f0840a0c25d607aa5ef37e5e3a79";

/// A tenant with so many requests a minute.
pub(super) fn tenant(requests: u32) -> String {
    let limits = format!("{{requests_per_minute: {requests}}}");
    format!("tenants:\n  - {{name: acme, limits: {limits}, keys: [\"{HASH}\"]}}\n")
}

/// Sends a request of the tenant; returns when the answer's head has arrived.
pub(super) async fn send(client: &Client, url: &str, body: String) -> Result<Stream> {
    let (url, bearer) = (format!("{url}/v1/chat/completions"), format!("Bearer {KEY}"));
    client.open(&url, body, &[("authorization", &bearer)]).await
}

/// How long the limit is measured.
const WINDOW: Duration = Duration::from_secs(52);

/// Asks a gateway again and again.
async fn ask(url: String, accepted: Arc<AtomicU64>) {
    let (client, body) = (Client::new(), chat(&text(7, 20), 1, false));
    loop {
        let answer = send(&client, &url, body.clone()).await;
        match answer.map(|answer| answer.status) {
            Ok(200) => _ = accepted.fetch_add(1, Relaxed),
            Ok(429 | 503) | Err(_) => {}
            Ok(other) => panic!("status {other}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// The tenant's clients ask all gateways for far more than it may have. Once the first minute's worth is
// used up, as many requests are accepted as the limit earns, within three in a hundred: also while a
// gateway is killed, and when it comes back without knowing what was taken.
#[tokio::test]
async fn a_limit_holds_over_gateways_and_through_a_kill() {
    let mut trio = Trio::start(2, 64.0, &tenant(100)).await;
    let accepted = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    trio.urls().into_iter().for_each(|url| _ = tasks.spawn(ask(url, accepted.clone())));
    while accepted.load(Relaxed) < 100 {
        assert!(tasks.try_join_next().is_none(), "a client failed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // What was earned meanwhile is used up, too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (burst, taken) = (start.elapsed(), accepted.load(Relaxed));
    let window = Instant::now();
    tokio::time::sleep(WINDOW / 4).await;
    trio.gateways[GATEWAYS - 1].process.kill().await.expect("runs");
    tokio::time::sleep(WINDOW / 4).await;
    trio.revive(GATEWAYS - 1).await;
    tokio::time::sleep(WINDOW / 2).await;
    let (earned, more) = (window.elapsed().as_secs_f64() / 0.6, accepted.load(Relaxed) - taken);
    println!("{taken} in the first {burst:?}, then {more} of {earned:.1}");
    assert!(tasks.try_join_next().is_none(), "a client failed");
    assert!(
        (0.97 * earned - 1.0..=1.03 * earned + 1.0).contains(&(more as f64)),
        "{more} of {earned}"
    );
}
