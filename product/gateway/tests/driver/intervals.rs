//! Up and down intervals of replicas and peers, with their causes.

use std::time::Duration;

use meridian_protocol::intervals::{History, Intervals};
use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, call, chat, eventually, get};
use crate::forwards::World;
use crate::request_metrics::{samples, sum};

const MS: Duration = Duration::from_millis(1);

async fn intervals(region: &Region) -> Intervals {
    let page = get(region.admin, "/admin/intervals").await;
    assert_eq!(page.status, 200);
    serde_json::from_slice(&page.body).unwrap()
}

fn said(history: &History) -> Vec<String> {
    history.intervals.iter().map(|one| format!("{} {}", one.state, one.cause)).collect()
}

/// Intervals touch, only the last one lasts, and the downtime is the sum of those that are down.
fn sound(history: &History, now_ms: u64) {
    let all: Vec<_> = history.intervals.iter().collect();
    for pair in all.windows(2) {
        assert_eq!(pair[0].end_ms, Some(pair[1].begin_ms), "{history:?}");
        assert_ne!(pair[0].state, pair[1].state, "{history:?}");
    }
    assert_eq!(all.last().unwrap().end_ms, None);
    let down = all.iter().filter(|one| one.state == "down");
    let down: u64 = down.map(|one| one.end_ms.unwrap_or(now_ms) - one.begin_ms).sum();
    assert_eq!(history.totals.down_ms, down, "{history:?}");
}

async fn region(replica: &Replica) -> Region {
    Region::with(&[replica], |c| c.timeouts.probe = Span::millis(400)).await
}

/// Waits until the replica's present state is this one.
async fn in_state(region: &Region, state: &str) {
    region.until(state, |s| s.replicas[0].state == state).await;
}

// Each way to fail gives its own cause: a process that ended, one that hangs, one that answers with
// errors, and one that closes connections. Between them the replica is up again.
#[tokio::test(start_paused = true)]
async fn causes() {
    let replica = Replica::start().await;
    let region = region(&replica).await;
    let error = Script::answer(500, "", "");
    let cut = Script::default().close();
    for script in [Some(error), Some(cut), None] {
        match &script {
            Some(script) => {
                for path in ["/metrics", "/health", "/v1/models"] {
                    replica.page(path, script.clone());
                }
            }
            None => replica.answers_probes(false),
        }
        in_state(&region, "down").await;
        tokio::time::sleep(1000 * MS).await;
        for path in ["/metrics", "/health", "/v1/models"] {
            replica.good_page(path);
        }
        replica.answers_probes(true);
        in_state(&region, "up").await;
    }
    replica.stop().await;
    in_state(&region, "down").await;
    tokio::time::sleep(2000 * MS).await;
    let read = intervals(&region).await;
    let history = &read.replicas[0];
    assert_eq!(
        said(history),
        [
            "unproven added",
            "up answered",
            "down 5xx",
            "up answered",
            "down reset",
            "up answered",
            "down timeout",
            "up answered",
            "down refused"
        ]
    );
    sound(history, read.now_ms);
    assert!(history.totals.down_ms >= 4000, "{history:?}");
    assert_eq!(history.name, replica.url());
    let row = &region.status().await.replicas[0];
    let standing = row.standing.as_ref().unwrap();
    assert_eq!((&*standing.now.state, &*standing.now.cause), ("down", "refused"));
    let page = get(region.admin, "/metrics").await;
    let states = samples(page.text(), "meridian_replica_state");
    assert_eq!(states.len(), 1);
    let labels = ["replica", "url", "state", "cause"].map(|name| states[0].label(name));
    assert_eq!(labels, ["r0", &replica.url(), "down", "refused"]);
    assert_eq!(sum(page.text(), "meridian_replica_transitions_total", "state", "down"), 4.0);
    assert_eq!(sum(page.text(), "meridian_replica_transitions_total", "cause", "timeout"), 1.0);
    let seconds = sum(page.text(), "meridian_replica_down_seconds_total", "url", &replica.url());
    assert!(seconds >= 4.0, "{seconds}");
}

// A drained replica is not down, also if its process ends. One that is removed and added again
// continues its history under its new name, and another replica does not get it.
#[tokio::test(start_paused = true)]
async fn removed_and_added_again() {
    let (replica, other) = (Replica::start().await, Replica::start().await);
    let region = region(&replica).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    let add = |replica: &Replica| format!(r#"{{"url": "{}"}}"#, replica.url());
    region.admin("DELETE", "/admin/replicas/r0?drain=true", "").await;
    region.until("it has left", |s| s.replicas.is_empty()).await;
    region.admin("POST", "/admin/replicas", &add(&other)).await;
    in_state(&region, "up").await;
    region.admin("DELETE", "/admin/replicas/r0.2", "").await;
    region.admin("POST", "/admin/replicas", &add(&replica)).await;
    in_state(&region, "up").await;
    assert_eq!(region.status().await.replicas[0].name, "r0.3");
    let read = intervals(&region).await;
    let of = |replica: &Replica| {
        let found = read.replicas.iter().find(|one| one.name == replica.url());
        found.unwrap_or_else(|| panic!("{read:?}"))
    };
    assert_eq!(
        said(of(&replica)),
        [
            "unproven added",
            "up answered",
            "draining removed",
            "removed removed",
            "unproven added",
            "up answered"
        ]
    );
    assert_eq!(said(of(&other)), ["unproven added", "up answered", "removed removed"]);
    read.replicas.iter().for_each(|one| sound(one, read.now_ms));
    assert_eq!(of(&replica).totals.down_ms, 0);
    let page = get(region.admin, "/metrics").await;
    let counted = samples(page.text(), "meridian_replica_transitions_total");
    let ups = counted.iter().find(|one| one.label("state") == "up").unwrap();
    assert_eq!((ups.label("url"), ups.value), (&*replica.url(), 2.0));
}

// A peer that shuts down, and that is back.
#[tokio::test(start_paused = true)]
async fn a_peer() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let mut regions = world.start().await;
    let mut eu = regions.remove(1);
    let us = regions.remove(0);
    eu.shut_down();
    eu.served.await.unwrap().unwrap();
    us.until("it is lost", |s| s.peers[0].state != "up").await;
    tokio::time::sleep(3000 * MS).await;
    let read = intervals(&us).await;
    let peer = &read.gateways[0];
    assert_eq!(peer.name, "eu/eu-1");
    let before = said(peer);
    let (last, up) = (before.last().unwrap(), &before[before.len() - 2]);
    assert_eq!(up, "up connected");
    assert!(["down closed", "down reset"].contains(&last.as_str()), "{before:?}");
    sound(peer, read.now_ms);
    assert!(peer.totals.down_ms >= 3000, "{peer:?}");
    let page = get(us.admin, "/metrics").await;
    let states = samples(page.text(), "meridian_peer_state");
    assert_eq!((states.len(), states[0].label("state")), (1, "down"));
    assert!(sum(page.text(), "meridian_peer_down_seconds_total", "peer", "eu/eu-1") >= 3.0);
    let _eu = Region::start(world.configs[1].clone()).await;
    eventually("it is up", async || {
        let up = said(&intervals(&us).await.gateways[0]);
        (up.last().unwrap() == "up connected").then_some(())
    })
    .await;
}
