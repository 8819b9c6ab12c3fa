//! An etcd for each of the tests of each store. Time is real.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use meridian_base::Duration;
use meridian_config::Control as Config;
use meridian_control::Error;
use meridian_control::etcd::Etcd;
use meridian_control::limits::Limits;
use meridian_control::store::{Change, Txn};
use tokio::time::{Instant, sleep};

use crate::etcd::{Cluster, LIMIT};
use crate::plane::Plane;

/// The revision of a new store.
pub(crate) const FIRST: u64 = 1;

thread_local! {
    /// They end with the thread, and so with the test.
    static CLUSTERS: RefCell<Vec<Cluster>> = const { RefCell::new(Vec::new()) };
}

fn section() -> String {
    let cluster = Cluster::start(1, &[]);
    let section = cluster.section();
    CLUSTERS.with_borrow_mut(|all| all.push(cluster));
    section
}

/// The store of a configuration's section.
pub(crate) fn of_section(section: &str, limits: Limits) -> Etcd {
    let config = Config::read(&format!("version: 1\n{section}")).unwrap();
    Etcd::new(&config.etcd.unwrap(), limits).unwrap()
}

/// A new store.
pub(crate) async fn store(limits: Limits) -> Etcd {
    of_section(&section(), limits)
}

/// A control plane with a new store.
pub(crate) async fn plane(more: &str) -> Plane {
    Plane::on(&section(), more).await
}

/// Asserts that something took no less; how long it took is not the store's alone.
pub(crate) fn took(start: Instant, seconds: RangeInclusive<u64>) {
    let took = start.elapsed();
    assert!(took.as_secs() >= *seconds.start(), "{took:?} instead of {seconds:?} s");
}

/// Waits until it is so.
pub(crate) async fn until(is_so: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < LIMIT, "it is not so within {LIMIT:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// A transaction of one change.
pub(crate) fn put(key: &str, value: &str) -> Txn {
    Txn { guards: Vec::new(), changes: vec![Change::put(key, value)] }
}

/// Retries while no member answers, as every caller of a store does.
pub(crate) async fn retried<T, F: Future<Output = Result<T, Error>>>(act: impl Fn() -> F) -> T {
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
