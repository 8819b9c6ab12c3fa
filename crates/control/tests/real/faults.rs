//! Members that are killed, stopped, full, compacted and restored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meridian_base::{Duration, Rng, Time};
use meridian_control::Error;
use meridian_control::etcd::Etcd;
use meridian_control::limits::Limits;
use meridian_control::store::{
    Change, Committed, Event, Guard, Keys, LeaseId, Revision, Store, Txn, Watch,
};
use meridian_control::tenure::Tenure;
use tokio::time::{Instant, sleep, timeout};

use crate::etcd::{Cluster, LIMIT};
use crate::stores::of_section;

/// Faults of a run; more with `MERIDIAN_FAULTS`.
fn rounds() -> usize {
    let text = std::env::var("MERIDIAN_FAULTS").unwrap_or_else(|_| "4".to_owned());
    text.parse().unwrap_or_else(|_| panic!("MERIDIAN_FAULTS is {text:?}; give a number"))
}

fn put(key: &str, value: &str) -> Txn {
    Txn { guards: Vec::new(), changes: vec![Change::put(key, value)] }
}

/// Retries while no member answers, as every caller of a store does.
async fn retried<T, F: Future<Output = Result<T, Error>>>(act: impl Fn() -> F) -> T {
    let start = Instant::now();
    loop {
        match act().await {
            Ok(done) => return done,
            Err(error) if error.may_retry() && start.elapsed() < LIMIT => {
                sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Counts up a key, and returns the acknowledged numbers with their revisions.
async fn count(store: Etcd, key: &'static str, over: Arc<AtomicBool>) -> Vec<(u64, Revision)> {
    let mut acknowledged = Vec::new();
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
            Ok(Committed::Yes(revision)) => acknowledged.push((number, revision)),
            Ok(Committed::No(_)) => panic!("nobody else writes {key}"),
            // It may have been made; the next read tells.
            Err(error) => assert!(error.may_retry(), "{error}"),
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

/// Breaks and mends one member at a time.
async fn break_members(cluster: &mut Cluster, rng: &mut Rng, rounds: usize) {
    for _ in 0..rounds {
        let n = if rng.below(2) == 0 { cluster.leader() } else { rng.below(3) };
        match rng.below(3) {
            0 => {
                cluster.kill(n);
                sleep(Duration::from_millis(500 + rng.below(2000) as u64)).await;
                cluster.restart(n);
            }
            1 => {
                cluster.signal(n, "STOP");
                sleep(Duration::from_millis(1000 + rng.below(4000) as u64)).await;
                cluster.signal(n, "CONT");
            }
            // Slow: it runs for a fifth of the time.
            _ => {
                for _ in 0..20 {
                    cluster.signal(n, "STOP");
                    sleep(Duration::from_millis(80)).await;
                    cluster.signal(n, "CONT");
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
        cluster.whole();
    }
}

// While members die, stop and are slow, writers go on: no acknowledged change is lost or made twice,
// and a watch that began before shows each change once, in order, as one that begins afterwards does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start(3, &[]);
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
    break_members(&mut cluster, &mut rng, rounds()).await;
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

/// An owner, and from when until when it was certain to own a key.
type Owned = (usize, Instant, Instant);

/// Claims a key again and again, and returns when it was certain to own it.
async fn own(store: Etcd, owner: usize, over: Arc<AtomicBool>) -> Vec<Owned> {
    let (epoch, mut owned) = (Instant::now(), Vec::new());
    let now = || Time::ZERO + epoch.elapsed();
    while !over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50)).await;
        let asked = now();
        let Ok(lease) = store.grant(Duration::from_secs(2)).await else { continue };
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
            if held && tenure.holds(now()) {
                owned.push((owner, from, Instant::now()));
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

// A key with a lease never has two owners who are certain of it, whatever happens to the members, and
// changes hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_two_owners() {
    let mut cluster = Cluster::start(3, &[]);
    let over = Arc::new(AtomicBool::new(false));
    let owner = |n| {
        let store = of_section(&cluster.section(), Limits::default());
        tokio::spawn(own(store, n, over.clone()))
    };
    let owners: Vec<_> = (0..3).map(owner).collect();
    break_members(&mut cluster, &mut Rng::new(33), rounds()).await;
    sleep(Duration::from_secs(5)).await;
    over.store(true, Ordering::Relaxed);
    let mut owned = Vec::new();
    for owner in owners {
        owned.extend(owner.await.unwrap());
    }
    owned.sort_by_key(|(_, from, _)| *from);
    let mut handovers = 0;
    for pair in owned.windows(2) {
        let [(one, _, until), (other, from, _)] = pair else { unreachable!() };
        assert!(one == other || until <= from, "two owners: {pair:?}");
        handovers += usize::from(one != other);
    }
    assert!(handovers > 0, "{owned:?}");
    println!("{} faults, {handovers} handovers, never two owners", rounds());
}

// An etcd without space refuses changes and says how to get on. Leases are kept meanwhile, deletes
// are possible, and afterwards everything goes on.
#[tokio::test]
async fn a_full_etcd_says_so() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes=400000"]);
    let store = of_section(&cluster.section(), Limits::default());
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    let mut full = None;
    for n in 0..200 {
        let written = store.commit(put(&format!("k{n}"), &"x".repeat(20_000))).await;
        if let Err(error) = written {
            full = Some(error);
            break;
        }
    }
    let full = full.expect("it is full");
    assert!(matches!(full, Error::Full(_)), "{full:?}");
    for part in ["no space left", "compact and defragment", "etcdctl alarm disarm"] {
        assert!(full.to_string().contains(part), "{full}");
    }
    assert_eq!(store.keep_alive(lease.id).await.unwrap(), lease.ttl);
    let there = store.list("k").await.unwrap();
    for entry in &there.entries {
        let delete = Txn { guards: Vec::new(), changes: vec![Change::Delete(entry.key.clone())] };
        store.commit(delete).await.unwrap();
    }
    let head = store.list("").await.unwrap().revision;
    store.compact(head).await.unwrap();
    cluster.ctl_all(&["defrag"]).unwrap();
    cluster.ctl_all(&["alarm", "disarm"]).unwrap();
    store.commit(put("k", "again")).await.unwrap();
}

// Without any member a call ends with an error that says so, and goes on when one is back.
#[tokio::test]
async fn a_lost_etcd_says_so() {
    let mut cluster = Cluster::start(1, &[]);
    let store = of_section(&cluster.section(), Limits::default());
    store.commit(put("k", "1")).await.unwrap();
    let mut watch = store.watch(&Keys::prefix("k"), Revision(3));
    cluster.kill(0);
    let lost = store.get("k").await.unwrap_err();
    assert!(lost.may_retry() && lost.to_string().contains("etcd does not answer"), "{lost}");
    assert!(lost.to_string().contains("refused"), "it names the cause: {lost}");
    cluster.restart(0);
    retried(|| store.commit(put("k", "2"))).await;
    let batch = timeout(LIMIT, watch.next()).await.unwrap().unwrap();
    assert_eq!(batch.revision, Revision(3));
}

// A watch of a store that does not change stays at its member, also after a compaction.
#[tokio::test]
async fn an_idle_watch_stays() {
    let cluster = Cluster::start(3, &[]);
    let store = of_section(&cluster.section(), Limits::default());
    store.commit(put("k", "1")).await.unwrap();
    let head = store.list("").await.unwrap().revision;
    store.compact(head).await.unwrap();
    let member = store.member().to_owned();
    let mut watch = store.watch(&Keys::prefix("k"), head.next());
    let idle = timeout(Duration::from_secs(8), watch.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    assert_eq!(store.member(), member);
    store.commit(put("k", "2")).await.unwrap();
    assert_eq!(timeout(LIMIT, watch.next()).await.unwrap().unwrap().revision, head.next());
}
