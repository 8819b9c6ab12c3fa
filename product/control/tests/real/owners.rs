//! Owners of a key while members break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use meridian_base::{Duration, Rng, Time};
use meridian_control::etcd::Etcd;
use meridian_control::limits::Limits;
use meridian_control::store::{Change, Committed, Guard, LeaseId, Store, Txn};
use meridian_control::tenure::Tenure;
use tokio::time::{Instant, sleep};

use crate::breaks::{Break, OF_LINKS, OF_PROCESSES, break_members, rounds};
use crate::etcd::Cluster;
use crate::stores::of_section;

/// The owner's lease.
const LEASE: Duration = Duration::from_secs(2);
/// Between two times of one tenure there is less.
const JOINED: Duration = Duration::from_millis(20);

/// An owner, and from when until when it was certain to own a key.
type Owned = (usize, Instant, Instant);

/// What the owners share.
#[derive(Default)]
struct Competition {
    over: AtomicBool,
    /// A bit for each owner that has had the key.
    had: AtomicU32,
}

/// Claims a key again and again, and returns when it was certain to own it.
async fn own(store: Etcd, owner: usize, all: Arc<Competition>) -> Vec<Owned> {
    let (epoch, mut owned) = (Instant::now(), Vec::new());
    let now = || Time::ZERO + epoch.elapsed();
    while !all.over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50)).await;
        let asked = now();
        let Ok(lease) = store.grant(LEASE).await else { continue };
        let value = owner.to_string().into_bytes();
        let put = Change::Put { key: "owner".into(), value, lease: Some(lease.id) };
        let txn = Txn { guards: vec![Guard::Absent("owner".into())], changes: vec![put] };
        if !matches!(store.commit(txn).await, Ok(Committed::Yes(_))) {
            let _ = store.revoke(lease.id).await;
            continue;
        }
        let mut tenure = Tenure::new(asked, lease.ttl);
        // It keeps the key for a while, and then leaves it to its lease.
        for _ in 0..4 {
            let (from, held) = (Instant::now(), tenure.holds(now()));
            keep(&store, lease.id, &mut tenure, now).await;
            // Taken before the question, between which and the next line the thread may wait.
            let until = Instant::now();
            if held && tenure.holds(now()) {
                owned.push((owner, from, until));
                all.had.fetch_or(1 << owner, Ordering::Relaxed);
            }
        }
    }
    owned
}

async fn keep(store: &Etcd, id: LeaseId, tenure: &mut Tenure, now: impl Fn() -> Time) {
    sleep(Duration::from_millis(300)).await;
    let asked = now();
    if let Ok(ttl) = store.keep_alive(id).await {
        tenure.kept(asked, ttl);
    }
}

/// Lets three owners compete while members break. Returns for how long two were certain at once, at
/// most.
async fn compete(mut cluster: Cluster, of: &[Break]) -> Duration {
    let all = Arc::new(Competition::default());
    let owner = |n| {
        let store = of_section(&cluster.section(), Limits::default());
        tokio::spawn(own(store, n, all.clone()))
    };
    let owners: Vec<_> = (0..3).map(owner).collect();
    break_members(&mut cluster, &mut Rng::new(33), of).await;
    // Time for the key to change hands, also if chance gives it to the same owner again.
    for _ in 0..10 {
        sleep(5 * LEASE).await;
        if all.had.load(Ordering::Relaxed).count_ones() > 1 {
            break;
        }
    }
    all.over.store(true, Ordering::Relaxed);
    let mut owned = Vec::new();
    for owner in owners {
        owned.extend(owner.await.unwrap());
    }
    let (handovers, longest) = overlap(owned);
    assert!(handovers > 0, "the key never changed hands");
    println!("{} faults, {handovers} handovers, two owners for {longest:?}", rounds());
    longest
}

/// How often another owner followed, and the longest time for which two were certain at once.
fn overlap(mut owned: Vec<Owned>) -> (usize, Duration) {
    owned.sort_by_key(|(_, from, _)| *from);
    // Times of one owner that follow each other at once are one.
    let mut merged: Vec<Owned> = Vec::new();
    for (owner, from, until) in owned {
        match merged.iter_mut().rev().find(|(other, ..)| *other == owner) {
            Some((_, _, end)) if from.saturating_duration_since(*end) < JOINED => *end = until,
            _ => merged.push((owner, from, until)),
        }
    }
    let handovers = merged.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    let pairs = (0..merged.len()).flat_map(|at| (0..at).map(move |before| (before, at)));
    let both = |(before, at): (usize, usize)| {
        let ((one, _, until), (other, from, to)) = (merged[before], merged[at]);
        if one == other { Duration::ZERO } else { until.min(to).saturating_duration_since(from) }
    };
    (handovers, pairs.map(both).max().unwrap_or(Duration::ZERO))
}

// Times that follow each other at once are one, and every pair of owners counts.
#[test]
fn overlaps() {
    let start = Instant::now();
    let at = |owner, [from, until]: [u64; 2]| {
        (owner, start + Duration::from_millis(from), start + Duration::from_millis(until))
    };
    let apart = vec![at(0, [0, 300]), at(0, [300, 600]), at(1, [700, 900])];
    assert_eq!(overlap(apart), (1, Duration::ZERO));
    let both = vec![
        at(0, [0, 300]),
        at(1, [100, 400]),
        at(0, [300, 700]),
        at(1, [401, 650]),
        at(2, [2000, 2100]),
    ];
    assert_eq!(overlap(both), (2, Duration::from_millis(550)));
}

// A key with a lease never has two owners who are certain of it, whatever happens to the network, and
// changes hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_two_owners() {
    assert_eq!(compete(Cluster::start_apart(3), &OF_LINKS).await, Duration::ZERO);
}

// etcd before 3.4.31 and 3.5.13 has a defect: a leader that was stopped ends leases that the next leader
// has renewed (etcd-io/etcd#15247). So there may be two owners, and no longer than the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_owners_last_no_longer_than_the_lease() {
    let longest = compete(Cluster::start(3, &[]), &OF_PROCESSES).await;
    assert!(longest <= LEASE, "two owners for {longest:?}");
}
