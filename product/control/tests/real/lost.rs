//! Writers and watches while members break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meridian_base::{Duration, Rng};
use meridian_control::etcd::Etcd;
use meridian_control::limits::Limits;
use meridian_control::store::{Change, Committed, Event, Guard, Keys, Revision, Store, Txn, Watch};
use tokio::time::{sleep, timeout};

use crate::breaks::{Break, OF_LINKS, OF_PROCESSES, break_members, rounds};
use crate::etcd::{Cluster, LIMIT};
use crate::stores::{of_section, put, retried};

/// Counts up a key, and returns the acknowledged numbers with their revisions.
async fn count(store: Etcd, key: &'static str, over: Arc<AtomicBool>) -> Vec<(u64, Revision)> {
    let mut acknowledged = Vec::new();
    // A change without an answer may be made after the next read.
    let mut in_doubt = false;
    while !over.load(Ordering::Relaxed) {
        let there = retried(|| store.get(key)).await;
        let number = there
            .as_ref()
            .map_or(0, |entry| std::str::from_utf8(&entry.value).unwrap().parse::<u64>().unwrap())
            + 1;
        let guard = match &there {
            Some(entry) => Guard::At(key.into(), entry.modified),
            None => Guard::Absent(key.into()),
        };
        let changes = vec![Change::put(key, number.to_string())];
        match store.commit(Txn { guards: vec![guard], changes }).await {
            Ok(Committed::Yes(revision)) => {
                acknowledged.push((number, revision));
                in_doubt = false;
            }
            Ok(Committed::No(_)) => assert!(in_doubt, "{key} has one writer"),
            Err(error) => {
                assert!(error.may_retry(), "{error}");
                in_doubt = true;
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
    acknowledged
}

/// Every number of a key that a watch shows, until it has shown `last`.
async fn watched(store: Etcd, key: &'static str, last: u64) -> Vec<(u64, Revision)> {
    let mut watch = store.watch(&Keys::prefix(key), Revision(1));
    let mut seen = Vec::new();
    loop {
        let batch = timeout(LIMIT, watch.next()).await.expect("the watch shows it").unwrap();
        for event in &batch.events {
            let Event::Put(entry) = event else { panic!("{event:?}") };
            let number = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
            seen.push((number, batch.revision));
            if number == last {
                return seen;
            }
        }
    }
}

// No acknowledged change is lost or made twice while members die, stop and are slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    nothing_is_lost(Cluster::start(3, &[]), &OF_PROCESSES).await;
}

// The same while members are cut off from each other and from clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_in_a_partition() {
    nothing_is_lost(Cluster::start_apart(3), &OF_LINKS).await;
}

/// Writers continue while members break. A watch that began before shows each change once, in order,
/// as one that begins afterwards does.
async fn nothing_is_lost(mut cluster: Cluster, of: &[Break]) {
    let store = |limits| of_section(&cluster.section(), limits);
    let over = Arc::new(AtomicBool::new(false));
    let keys = ["a", "b", "c"];
    let writers: Vec<_> =
        keys.map(|key| tokio::spawn(count(store(Limits::default()), key, over.clone()))).into();
    let early = store(Limits::default());
    let mut early = early.watch(&Keys::prefix("a"), Revision(1));
    let early = tokio::spawn(async move {
        let mut revisions = Vec::new();
        loop {
            let batch = early.next().await.unwrap();
            revisions.push(batch.revision);
            let Some(Event::Put(entry)) = batch.events.first() else { continue };
            if entry.value == b"end" {
                return revisions;
            }
        }
    });
    let mut rng = Rng::new(32);
    let late = store(Limits::default());
    break_members(&mut cluster, &mut rng, of).await;
    over.store(true, Ordering::Relaxed);
    let mut total = 0;
    let mut of_a = Vec::new();
    for (key, writer) in keys.into_iter().zip(writers) {
        let acknowledged = writer.await.unwrap();
        let (last, _) = *acknowledged.last().expect("some are acknowledged");
        let seen = watched(late.clone(), key, last).await;
        let numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
        let all: Vec<u64> = (1..=last).collect();
        assert_eq!(numbers, all, "each number once, in order");
        for one in &acknowledged {
            assert!(seen.contains(one), "{key}: {one:?} was acknowledged");
        }
        total += acknowledged.len();
        if key == "a" {
            of_a = seen;
        }
    }
    retried(|| late.commit(put("a", "end"))).await;
    let revisions = timeout(LIMIT, early).await.expect("the watch goes on").unwrap();
    let expected: Vec<Revision> = of_a.iter().map(|(_, revision)| *revision).collect();
    assert_eq!(revisions[..revisions.len() - 1], expected[..]);
    println!("{} faults, {total} changes acknowledged, none lost", rounds());
}
