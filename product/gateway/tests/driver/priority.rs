//! Priority classes: the order of requests that wait for capacity.

use std::time::Duration;

use meridian_config::{AdmissionMode, Gateway as Config, PriorityClass};
use tokio::task::JoinHandle;

use crate::common::{Answer, Fleet, Region, Replica, call, chat};
use crate::forwards::occupy_with;
use crate::siblings;
use crate::tenants::{bearing, tenant};

const HIGH: &str = "mk-0123456789abcdefghij";
const NORMAL: &str = "mk-zyxwvutsrqponmlkjihg";

fn classes(config: &mut Config) {
    config.tenants = vec![tenant("chat", HIGH), tenant("tools", NORMAL)];
    config.tenants[0].priority = PriorityClass::High;
    config.admission = Some(AdmissionMode::Outstanding(1));
}

/// Sends a request that is queued, the `n`th of them.
async fn hold(region: &Region, key: &str, says: Option<&str>, n: u32) -> JoinHandle<Answer> {
    let (listen, request) = (region.listen, says_priority(key, says));
    let sent = tokio::spawn(async move { call(listen, request).await });
    region.until("it is held", |s| s.held == n).await;
    sent
}

fn says_priority(
    key: &str,
    says: Option<&str>,
) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let mut request = bearing(chat(&format!("{key} {}", says.unwrap_or("nothing"))), key);
    if let Some(says) = says {
        request.headers_mut().insert("x-meridian-priority", says.parse().unwrap());
    }
    request
}

// One slot: a request of a higher class goes first though it arrived last. A client may lower the
// class of its request, but not raise it above its tenant's. No replica sees the class.
#[tokio::test(start_paused = true)]
async fn higher_classes_go_first() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], classes).await;
    let busy = occupy_with(&region, &replica, NORMAL).await;
    let sent = [
        hold(&region, HIGH, Some("low"), 1).await,
        hold(&region, NORMAL, Some("high"), 2).await,
        hold(&region, HIGH, Some("high"), 3).await,
        hold(&region, NORMAL, None, 4).await,
    ];
    drop(busy);
    for answer in sent {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let seen = replica.seen();
    let order: Vec<bool> = seen[1..].iter().map(|seen| seen.text().contains(HIGH)).collect();
    assert_eq!(order, [true, false, false, true]);
    assert!(seen[1].text().contains("high") && seen[4].text().contains("low"));
    assert!(seen.iter().all(|seen| seen.header("x-meridian-priority").is_none()));
    let answer = call(region.listen, says_priority(NORMAL, Some("urgent"))).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"));
    assert!(!answer.text().contains("urgent"), "{}", answer.text());
}

// The same over two gateways of a region: the slot that gets free at the one is left to the other, which
// holds a request of a higher class.
#[tokio::test(start_paused = true)]
async fn higher_classes_go_first_over_gateways() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let both = [(1, 2), (2, 1)].map(|(own, other)| {
        let mut config = siblings::gateway(&fleet, own, &[&replica]);
        siblings::lists(&mut config, other, fleet.address(other));
        classes(&mut config);
        config
    });
    let [first, second] = both;
    let (first, second) = (Region::start(first).await, Region::start(second).await);
    for region in [&first, &second] {
        region.until("its sibling and replica are up", siblings::is_up).await;
    }
    let busy = occupy_with(&first, &replica, NORMAL).await;
    second.until("the slot is taken", |s| siblings::of_siblings(s) == 1).await;
    let low = [hold(&first, NORMAL, None, 1).await, hold(&first, NORMAL, None, 2).await];
    let high = hold(&second, HIGH, None, 1).await;
    first.until("it knows that queue", |s| s.peers[0].held == 1).await;
    second.until("it knows the other", |s| s.peers[0].held == 2).await;
    drop(busy);
    for answer in low.into_iter().chain([high]) {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let seen = replica.seen();
    let order: Vec<bool> = seen[1..].iter().map(|seen| seen.text().contains(HIGH)).collect();
    assert_eq!(order, [true, false, false]);
    first.until("nothing waits there", |s| s.peers[0].held == 0).await;
}

// When the queue is full, a request of a higher class replaces the newest one of the lowest class.
// That one is refused with the reason and a time to retry.
#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_place() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| {
        classes(config);
        config.held.max = 2;
        config.held.max_per_tenant = 2;
    })
    .await;
    let busy = occupy_with(&region, &replica, NORMAL).await;
    let stays = hold(&region, NORMAL, Some("low"), 1).await;
    let goes = hold(&region, NORMAL, Some("low"), 2).await;
    let comes = hold(&region, HIGH, None, 2).await;
    let answer = goes.await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (429, "displaced"));
    assert_eq!(answer.header("retry-after"), "1");
    let full = call(region.listen, says_priority(NORMAL, Some("low"))).await;
    assert_eq!((full.status, full.code().as_str()), (429, "held_full"));
    drop(busy);
    for answer in [stays, comes] {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let status = region.settled().await;
    assert_eq!((status.requests.rejected, status.requests.done), (2, 2));
    let metrics = region.admin("GET", "/metrics", "").await;
    assert!(metrics.text().contains("meridian_refusals_total{reason=\"displaced\"} 1"));
}

// Strict classes can starve requests: while high requests keep the only slot busy, a low one is
// refused after the longest wait, with a time to retry.
#[tokio::test(start_paused = true)]
async fn a_low_class_can_starve() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], classes).await;
    let busy = occupy_with(&region, &replica, HIGH).await;
    let low = hold(&region, NORMAL, Some("low"), 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let _next = hold(&region, HIGH, None, 2).await;
    replica.then(crate::common::Script::silence());
    drop(busy);
    region.until("the high one has the slot", |s| s.held == 1).await;
    replica.load(0, 1, 0.1);
    let answer = low.await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    assert!(!answer.header("retry-after").is_empty());
}
