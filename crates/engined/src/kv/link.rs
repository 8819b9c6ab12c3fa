//! The emulated card of an engine: KV passes each direction of it at the card's rate.
//!
//! Concurrent transfers share a direction by the same machine as in the simulator. A block has
//! passed when its last byte would have, even if its task wakes later: the timer's ticks delay the
//! end of a transfer, and do not add up over its blocks.
//!
//! Each engine sees its own card only. A transfer that the other card slows down still takes its
//! whole share here, where the simulator would give a part of it to others.

use meridian_base::{FlowId, PortId, Time};
use meridian_fabric::{Demand, Network, Path};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// One direction of a card.
#[derive(Debug)]
pub(super) struct Link {
    /// Bytes in a second of wall time.
    rate: f64,
    start: Instant,
    flows: Mutex<Flows>,
    /// A transfer was broken off, so the others are faster.
    freed: Notify,
}

/// The transfers under way. Times are since the link's start.
#[derive(Debug)]
struct Flows {
    network: Network,
    port: PortId,
    begun: u32,
    free: Vec<FlowId>,
}

/// A transfer. Dropped, it is over.
#[derive(Debug)]
pub(super) struct Passing<'a> {
    link: &'a Link,
    flow: FlowId,
    bytes: f64,
}

/// Waits are at most a year.
const LONGEST: f64 = 31_536_000.0;

impl Link {
    /// A direction with this rate in bytes per second of wall time.
    pub(super) fn new(rate: f64) -> Link {
        let mut network = Network::new(&[]);
        let port = network.add(rate);
        let flows = Flows { network, port, begun: 0, free: Vec::new() };
        let freed = Notify::new();
        Link { rate, start: Instant::now(), flows: Mutex::new(flows), freed }
    }

    /// Wall time of so many bytes alone on the link.
    pub(super) fn time(&self, bytes: f64) -> Duration {
        Duration::from_secs_f64((bytes / self.rate).min(LONGEST))
    }

    /// Starts a transfer of `bytes` bytes, above 0.
    pub(super) fn begin(&self, bytes: f64) -> Passing<'_> {
        let (mut flows, now) = self.now();
        let flow = flows.begin(now, bytes);
        Passing { link: self, flow, bytes }
    }

    /// The transfers as of now.
    fn now(&self) -> (MutexGuard<'_, Flows>, Time) {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let nanos = self.start.elapsed().as_nanos();
        let now = Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        flows.catch_up(now);
        (flows, now)
    }

    /// When to look again whether only `after` bytes of a transfer are left; `None` if that is so.
    /// Rates change when any transfer ends.
    fn due(&self, flow: FlowId, after: f64) -> Option<Instant> {
        let (mut flows, now) = self.now();
        let end = flows.network.next_end().filter(|_| flows.network.demand(flow).is_some())?;
        let left = flows.network.left(now, flow) - after;
        if after > 0.0 && left < 1.0 {
            return None;
        }
        let passes = (left / flows.network.rate(flow)).clamp(1e-9, LONGEST);
        let passes = if after > 0.0 { now + Duration::from_secs_f64(passes) } else { end };
        Some(self.start + Duration::from_nanos(passes.min(end).as_nanos()))
    }
}

impl Flows {
    /// Ends the transfers whose last byte has passed, which keep their rows until they are dropped.
    fn catch_up(&mut self, now: Time) {
        while self.network.ended(now).is_some() {}
        self.network.settle(now);
    }

    fn begin(&mut self, now: Time, bytes: f64) -> FlowId {
        let flow = self.free.pop().unwrap_or_else(|| {
            self.begun += 1;
            FlowId(self.begun - 1)
        });
        let path = Path::new(&[self.port]).expect("one port is a path");
        self.network.begin(now, flow, Demand::new(path, bytes));
        self.network.settle(now);
        flow
    }
}

impl Passing<'_> {
    /// Waits until `bytes` of its bytes have passed.
    pub(super) async fn passed(&self, bytes: f64) {
        loop {
            let freed = self.link.freed.notified();
            let Some(due) = self.link.due(self.flow, (self.bytes - bytes).max(0.0)) else { return };
            tokio::select! {
                () = sleep_until(due) => {}
                () = freed => {}
            }
        }
    }

    /// Waits until all of it has passed.
    pub(super) async fn over(&self) {
        self.passed(self.bytes).await;
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        let (mut flows, now) = self.link.now();
        flows.network.end(now, self.flow);
        flows.network.settle(now);
        flows.free.push(self.flow);
        drop(flows);
        self.link.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    /// A link of 1 MB/s that has been idle for a while.
    async fn link() -> Link {
        let link = Link::new(MB);
        tokio::time::sleep(Duration::from_secs(1)).await;
        link
    }

    /// Passes so many MB in as many pieces.
    async fn pass(link: &Link, pieces: u32) -> u128 {
        let start = Instant::now();
        let passing = link.begin(f64::from(pieces) * MB / 1000.0);
        for piece in 1..=pieces {
            passing.passed(f64::from(piece) * MB / 1000.0).await;
        }
        start.elapsed().as_millis()
    }

    // Two transfers share the link, and the longer one has all of it once the other is over. Idle
    // time is lost.
    #[tokio::test(start_paused = true)]
    async fn transfers_share_the_link() {
        let link = link().await;
        let (short, long) = tokio::join!(pass(&link, 100), pass(&link, 300));
        assert_eq!((short, long), (200, 400));
    }

    // Pieces that take less than a tick of the timer add no time to a transfer.
    #[tokio::test(start_paused = true)]
    async fn ticks_do_not_add_up() {
        let link = link().await;
        let start = Instant::now();
        let passing = link.begin(MB);
        for piece in 1..=7000 {
            passing.passed(f64::from(piece) * MB / 7000.0).await;
        }
        passing.over().await;
        assert_eq!(start.elapsed().as_millis(), 1000);
    }

    // A transfer that is broken off leaves its share to the others at once.
    #[tokio::test(start_paused = true)]
    async fn a_broken_transfer_frees_its_share() {
        let link = link().await;
        let broken = tokio::time::timeout(Duration::from_millis(200), pass(&link, 1000));
        let broken = async { drop(broken.await) };
        let ((), took) = tokio::join!(broken, pass(&link, 300));
        assert_eq!(took, 400);
    }
}
