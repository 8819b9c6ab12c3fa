//! Watches, leases and compaction of each store, and the registry in it. The file is in paused time.
use meridian_base::{Duration, Time};
use meridian_control::Error;
use meridian_control::limits::Limits;
use meridian_control::registry::{Key, Refused, Registry, View};
use meridian_control::store::{Batch, Change, Event, Guard, Keys, Revision, Store, Txn, Watch};
use meridian_protocol::policy::Policy;
use meridian_protocol::registry::{Gateway, Region, Replica, Seen, Wanted};

use crate::stores::{self, FIRST};

/// The revision of the nth change of a new store.
fn nth(change: u64) -> Revision {
    Revision(FIRST + change)
}

fn put(key: &str, value: &str) -> Txn {
    Txn { guards: Vec::new(), changes: vec![Change::put(key, value)] }
}

fn shown(batch: &Batch) -> Vec<String> {
    let tell = |event: &Event| match event {
        Event::Put(entry) => format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)),
        Event::Deleted(key) => format!("-{key}"),
    };
    batch.events.iter().map(tell).collect()
}

// A watch yields existing changes, then new ones; only its prefix; one batch per transaction.
#[tokio::test]
async fn a_watch_shows_changes_in_order() {
    let store = stores::store(Limits::default()).await;
    store.commit(put("a/1", "x")).await.unwrap();
    let mut watch = store.watch(&Keys::prefix("a/"), Revision(1));
    assert_eq!(shown(&watch.next().await.unwrap()), ["a/1=x"]);
    let writer = store.clone();
    let later = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        writer.commit(put("b/1", "not seen")).await.unwrap();
        let mut both = put("a/2", "y");
        both.changes.push(Change::Delete("a/1".into()));
        writer.commit(both).await.unwrap();
    });
    let batch = watch.next().await.unwrap();
    assert_eq!((batch.revision, shown(&batch)), (nth(3), vec!["a/2=y".into(), "-a/1".into()]));
    later.await.unwrap();
}

// The error of a watch that has fallen behind the kept history names the revision to restart from.
#[tokio::test]
async fn a_watch_that_fell_behind_says_so() {
    let store = stores::store(Limits::default()).await;
    for n in 0..9 {
        store.commit(put("k", &n.to_string())).await.unwrap();
    }
    store.compact(nth(4)).await.unwrap();
    let mut watch = store.watch(&Keys::prefix(""), nth(1));
    let Err(Error::Compacted { asked, oldest }) = watch.next().await else {
        panic!("it is compacted")
    };
    assert_eq!(asked, nth(1));
    let mut resumed = store.watch(&Keys::prefix(""), oldest);
    assert!(oldest <= nth(5) && !shown(&resumed.next().await.unwrap()).is_empty());
    let mut newest = store.watch(&Keys::prefix(""), store.list("").await.unwrap().revision);
    assert_eq!(shown(&newest.next().await.unwrap()), ["k=8"]);
    assert!(matches!(store.compact(nth(4)).await, Err(Error::Compacted { .. })));
    assert!(matches!(store.compact(nth(99)).await, Err(Error::Future { .. })));
}

// A lease without keep-alives ends in time, its keys are deleted at one revision, and watches are
// notified without any call. A lease that is renewed stays.
#[tokio::test]
async fn a_lease_ends_in_time() {
    let store = stores::store(Limits::default()).await;
    let start = tokio::time::Instant::now();
    let lease = store.grant(Duration::from_millis(2500)).await.unwrap();
    assert_eq!(lease.ttl, Duration::from_secs(3));
    let mut both = Txn::default();
    for key in ["one", "two"] {
        let value = b"mine".to_vec();
        both.changes.push(Change::Put { key: key.into(), value, lease: Some(lease.id) });
    }
    store.commit(both).await.unwrap();
    let mut watch = store.watch(&Keys::prefix(""), nth(2));
    tokio::time::sleep(Duration::from_secs(2)).await;
    store.keep_alive(lease.id).await.unwrap();
    let gone = watch.next().await.unwrap();
    assert_eq!(shown(&gone), ["-one", "-two"]);
    stores::took(start, 5..=5);
    assert_eq!(store.keep_alive(lease.id).await, Err(Error::NoLease(lease.id)));
    assert_eq!(store.get("one").await.unwrap(), None);
}

// A request over a limit is refused with the name, value and limit, and changes nothing.
#[tokio::test]
async fn what_is_beyond_a_limit_is_refused() {
    let store = stores::store(Limits { value: 4, ..Limits::default() }).await;
    store.commit(put("k", "1234")).await.unwrap();
    let long = store.commit(put("k", "12345")).await.unwrap_err();
    assert_eq!(
        long.to_string(),
        "a value's length in bytes is 5, the limit is 4; store less in it"
    );
    let twice = Txn {
        guards: vec![Guard::Absent("x".into())],
        changes: vec![Change::put("k", "1"), Change::Delete("k".into())],
    };
    assert_eq!(store.commit(twice).await, Err(Error::Twice("k".into())));
    assert_eq!(store.list("").await.unwrap().revision, nth(1));
}

fn replica(region: &str) -> Replica {
    let spec = serde_json::from_str(r#"{"url":"http://10.0.0.1:8000","models":["m"]}"#).unwrap();
    Replica { region: region.into(), spec, labels: Default::default(), wanted: Wanted::Up }
}

fn gateway(region: &str) -> Gateway {
    let (region, address) = (region.to_owned(), "http://10.0.0.2:8080".to_owned());
    Gateway { region, address, peer_address: None, version: "0.1.0".into(), ..Gateway::default() }
}

// Replicas are added, drained, removed, added again and deleted. Each change has a revision, and
// invalid ones are refused by name.
#[tokio::test]
async fn replicas_come_and_go() {
    let registry = Registry::new(stores::store(Limits::default()).await);
    assert_eq!(registry.add_replica("r1", &replica("eu")).await, Ok(nth(1)));
    let again = registry.add_replica("r1", &replica("us")).await.unwrap_err();
    assert_eq!(again.to_string(), "replica `r1` exists already; change it, or use another name");
    assert_eq!(registry.want_replica("r1", Wanted::Draining).await, Ok(nth(2)));
    assert_eq!(registry.view().await.unwrap().up("eu").count(), 0);
    assert_eq!(registry.want_replica("r1", Wanted::Removed).await, Ok(nth(3)));
    assert_eq!(registry.add_replica("r1", &replica("us")).await, Ok(nth(4)));
    assert_eq!(registry.view().await.unwrap().up("us").count(), 1);
    let key = Key::replica("r1").unwrap();
    // It came back after the revision at which it was looked at.
    let came_back = registry.forget(&key, nth(3)).await;
    assert!(matches!(came_back, Err(Refused::Busy { .. })), "{came_back:?}");
    assert_eq!(registry.forget(&key, nth(4)).await, Ok(nth(5)));
    let missing = registry.want_replica("r1", Wanted::Up).await.unwrap_err();
    assert_eq!(missing.to_string(), "there is no replica `r1`; list them for the known names");
    let bad = registry.add_replica("R 1", &replica("eu")).await.unwrap_err();
    assert!(bad.to_string().starts_with("replica \"R 1\" is not a name"), "{bad}");
}

// A region that an earlier version stored under an invalid name is still read, drained and deleted;
// nothing more is written under that name.
#[tokio::test]
async fn a_stored_region_without_a_good_name_can_be_removed() {
    let registry = Registry::new(stores::store(Limits::default()).await);
    registry.store().commit(put("desired/region/ap_south", "{}")).await.unwrap();
    let at = registry.view().await.unwrap().regions["ap_south"].at;
    let changed = registry.set_region("ap_south", &Region::default(), Some(at)).await;
    assert_eq!(changed, Err(Refused::Region("ap_south".to_owned())));
    let replica = replica("ap_south");
    let added = registry.add_replica("r1", &replica).await;
    assert_eq!(added, Err(Refused::Region("ap_south".to_owned())));
    registry.want_region("ap_south", Wanted::Draining).await.unwrap();
    let now = registry.view().await.unwrap().revision;
    registry.forget(&Key::region("ap_south").unwrap(), now).await.unwrap();
    assert!(registry.view().await.unwrap().regions.is_empty());
}

// A region's policy is checked before it is stored. A change against an older revision is refused
// with the current one.
#[tokio::test]
async fn a_regions_policy_changes_against_its_revision() {
    let registry = Registry::new(stores::store(Limits::default()).await);
    let first = registry.set_region("eu", &Region::default(), None).await.unwrap();
    let policy = |name: &str| Policy { name: name.into(), params: Default::default() };
    let unknown = registry.set_policy("eu", Some(&policy("fastest"))).await.unwrap_err();
    assert!(matches!(unknown, Refused::Policy(_)), "{unknown}");
    let second = registry.set_policy("eu", Some(&policy("p2c"))).await.unwrap();
    let late = registry.set_region("eu", &Region::default(), Some(first)).await;
    let changed = Refused::Changed { what: "region", name: "eu".into(), now: second };
    assert_eq!(late, Err(changed));
    registry.want_region("eu", Wanted::Draining).await.unwrap();
    let view = registry.view().await.unwrap();
    let record = &view.regions["eu"].record;
    assert_eq!((record.policy.clone(), record.wanted), (Some(policy("p2c")), Wanted::Draining));
}

// A gateway's name belongs to it for as long as its lease. A second gateway is refused, and gets
// the name once the first has been silent for the lease's duration; the first one's observations
// are deleted with it.
#[tokio::test]
async fn a_gateways_name_is_its_own() {
    let registry = Registry::new(stores::store(Limits::default()).await);
    let ttl = Duration::from_secs(10);
    let first = registry.announce("g1", &gateway("eu"), ttl, Time::ZERO).await.unwrap();
    let up = Seen { state: "up".into(), ..Seen::default() };
    let seen = (0..250).map(|n| (format!("r{n}"), Some(up.clone()))).collect();
    registry.observe("g1", first.lease, &seen).await.unwrap();
    registry.observe("g1", first.lease, &[("r1".to_owned(), None)].into()).await.unwrap();
    let second = registry.announce("g1", &gateway("us"), ttl, Time::ZERO).await.unwrap_err();
    assert!(matches!(second, Refused::There { .. }), "{second}");
    assert_eq!(registry.view().await.unwrap().seen.len(), 249);
    let rtts = [("us".to_owned(), 92.0)].into();
    registry.measured("g1", first.lease, &rtts).await.unwrap();
    assert_eq!(registry.view().await.unwrap().gateways["g1"].record.rtt_ms, rtts);
    tokio::time::sleep(ttl).await;
    assert!(!first.tenure.holds(Time::ZERO + ttl));
    let is_gone = async || {
        let view = registry.view().await.unwrap();
        view.gateways.is_empty() && view.seen.is_empty()
    };
    stores::until(is_gone).await;
    registry.announce("g1", &gateway("us"), ttl, Time::ZERO).await.unwrap();
    let gone = Refused::Store(Error::NoLease(first.lease));
    assert_eq!(registry.observe("g1", first.lease, &seen).await, Err(gone.clone()));
    assert_eq!(registry.keep("g1", first.lease).await, Err(gone.clone()));
    assert_eq!(registry.measured("g1", first.lease, &rtts).await, Err(gone.clone()));
    assert_eq!(registry.retire("g1", first.lease).await, Err(gone));
}

// A view that follows a watch equals a fresh one, including unreadable records.
#[tokio::test]
async fn following_is_as_good_as_reading() {
    let store = stores::store(Limits::default()).await;
    let registry = Registry::new(store.clone());
    let mut view = registry.view().await.unwrap();
    let mut watch = store.watch(&Keys::prefix(""), view.revision.next());
    registry.set_region("eu", &Region::default(), None).await.unwrap();
    for name in ["a", "b", "c"] {
        registry.add_replica(name, &replica("eu")).await.unwrap();
    }
    registry.want_replica("b", Wanted::Draining).await.unwrap();
    store.commit(put("desired/replica/a", "{")).await.unwrap();
    store.commit(put("desired/region/us", "{}")).await.unwrap();
    store.commit(put("desired/region/asia", "7")).await.unwrap();
    store.commit(put("other", "not ours")).await.unwrap();
    let now = registry.view().await.unwrap().revision;
    registry.forget(&Key::replica("c").unwrap(), now).await.unwrap();
    let lease = registry.announce("g", &gateway("eu"), Duration::from_secs(1), Time::ZERO).await;
    store.revoke(lease.unwrap().lease).await.unwrap();
    let now = registry.view().await.unwrap();
    while view.revision < now.revision {
        view.apply(&watch.next().await.unwrap());
    }
    assert_eq!(view, now);
    let unreadable: Vec<&String> = now.unreadable.keys().collect();
    assert_eq!(unreadable, ["desired/region/asia", "desired/replica/a"]);
    assert_eq!(View::of(store.list("desired/region/us").await.unwrap()).regions.len(), 1);
    let broken = registry.want_replica("a", Wanted::Up).await.unwrap_err();
    assert!(broken.to_string().starts_with("replica a can't be read"), "{broken}");
}

// Ten clients change one record at once: every change is made, none is lost.
#[tokio::test]
async fn changes_at_once_are_all_made() {
    let registry = Registry::new(stores::store(Limits::default()).await);
    registry.add_replica("r", &replica("eu")).await.unwrap();
    let change = |n: usize| {
        let registry = registry.clone();
        let wanted = [Wanted::Up, Wanted::Draining][n % 2];
        tokio::spawn(async move { registry.want_replica("r", wanted).await })
    };
    let tasks: Vec<_> = (0..10).map(change).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let entry = registry.store().get("desired/replica/r").await.unwrap().unwrap();
    assert_eq!(entry.version, 11);
}
