//! The file for the tests of each store, in paused time.

use std::ops::RangeInclusive;
use std::sync::Arc;

use meridian_base::Time;
use meridian_control::embedded::{Core, Embedded};
use meridian_control::limits::Limits;
use tokio::time::Instant;

use crate::disk::Disk;
use crate::plane::Plane;

/// The revision of a new store.
pub(crate) const FIRST: u64 = 0;

/// A new store.
pub(crate) async fn store(limits: Limits) -> Embedded {
    tokio::time::pause();
    let start = Instant::now();
    let clock = move || Time::ZERO + start.elapsed();
    let core = Core::open_on(Disk::default(), limits, clock()).unwrap();
    let store = Embedded::new(core, Arc::new(clock));
    let keeper = store.clone();
    tokio::spawn(async move { keeper.keep_time().await });
    store
}

/// A control plane with a new store.
pub(crate) async fn plane(more: &str) -> Plane {
    tokio::time::pause();
    Plane::start(more).await
}

/// Asserts how many seconds something took.
pub(crate) fn took(start: Instant, seconds: RangeInclusive<u64>) {
    let took = start.elapsed();
    assert!(seconds.contains(&took.as_secs()), "{took:?} instead of {seconds:?} s");
}

/// Waits until it is so.
pub(crate) async fn until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it is not so within a minute");
}
