//! Requests that cross an ocean, in simulated time.

use std::time::Duration;

use meridian_config::AdmissionMode;
use meridian_protocol::units::Size;
use tokio::time::Instant;

use crate::common::{Fleet, Ocean, Region, Replica, Script, call, chat, follow, open, peers};

const WAY: Duration = Duration::from_millis(100);

/// Time for a request of a megabyte to cross an ocean and get its complete answer, with this many
/// bytes sent ahead.
async fn crossing(warm: u64) -> Duration {
    let there = Replica::start().await;
    let fleet = Fleet::new("prod");
    let ocean = Ocean::to(fleet.address(2), WAY).await;
    let mut us = fleet.gateway("us", 1, &[]);
    follow(&mut us, "eu", ocean.door);
    peers(&mut us).warm = Size(warm);
    let mut eu = fleet.gateway("eu", 2, &[&there]);
    eu.admission = Some(AdmissionMode::Blind);
    let (_eu, us) = (Region::start(eu).await, Region::start(us).await);
    let known = |s: &meridian_protocol::admin::Status| s.peers[0].eligible == 1;
    let status = us.until("us is connected to eu", known).await;
    assert!(status.peers[0].rtt_ms >= 200.0, "it is far away: {:?}", status.peers[0]);
    // The first request may arrive while the connection is still being warmed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    there.then(Script::json(200, "{}"));
    let prompt = "word ".repeat((1 << 20) / 5);
    let began = Instant::now();
    let answer = call(us.listen, chat(&prompt)).await;
    assert_eq!((answer.status, answer.header("x-meridian-peer")), (200, "eu/eu-1"));
    assert!(there.last().body.len() > 1_000_000);
    began.elapsed()
}

// A megabyte crosses 200 ms of round trip within two round trips, including its answer. Without the
// bytes sent ahead it takes the six or seven that TCP's window needs to open.
#[tokio::test(start_paused = true)]
async fn a_megabyte_within_two_round_trips() {
    let took = crossing(2 << 20).await;
    assert!(took <= 4 * WAY, "{took:?} for 200 ms of round trip");
    let cold = crossing(0).await;
    assert!(cold >= 10 * WAY, "{cold:?} shows that the window is modelled");
}

// A token written by the peer's replica arrives at the client one way later, without waiting for
// more tokens.
#[tokio::test(start_paused = true)]
async fn tokens_do_not_wait() {
    let there = Replica::start().await;
    let fleet = Fleet::new("prod");
    let ocean = Ocean::to(fleet.address(2), WAY).await;
    let mut us = fleet.gateway("us", 1, &[]);
    follow(&mut us, "eu", ocean.door);
    let (_eu, us) =
        (Region::start(fleet.gateway("eu", 2, &[&there])).await, Region::start(us).await);
    us.until("us is connected to eu", |s| s.peers[0].eligible == 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n";
    let gap = Duration::from_millis(10);
    there.then(Script::stream(&[event, event, event, "data: [DONE]\n\n"], gap));
    let began = Instant::now();
    let mut answer = open(us.listen, crate::common::stream_chat("hi")).await;
    for n in 1..=4 {
        answer.piece().await.unwrap().unwrap();
        let took = began.elapsed();
        let due = 2 * WAY + n * gap;
        assert!(took >= due && took < due + gap, "piece {n} after {took:?}, due after {due:?}");
    }
}
