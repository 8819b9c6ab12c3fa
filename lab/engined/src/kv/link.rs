//! The emulated card of an engine: KV passes each direction of it at the card's rate. With a route it
//! passes the links of that instead.
//!
//! Concurrent transfers share a direction by the same machine as in the simulator. A block has
//! passed when its last byte would have, even if its task wakes later: the timer's ticks delay the
//! end of a transfer, and do not add up over its blocks. On several links a transfer is a flow on each,
//! none of them faster than the route alone, and what has passed the slowest has passed.
//!
//! Each engine sees its own transfers only. One that the other side slows down still takes its
//! whole share here, where the simulator would give a part of it to others.

use super::Route;
use meridian_base::{FlowId, PortId, Time};
use meridian_fabric::{Demand, Network, Path};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// One direction of a card, and the links of routes.
#[derive(Debug)]
pub(super) struct Link {
    /// Bytes in a second of wall time, of the card.
    rate: f64,
    /// Wall seconds of a second of model time.
    scale: f64,
    start: Instant,
    flows: Mutex<Flows>,
    /// A transfer was broken off, so the others are faster.
    freed: Notify,
}

/// The transfers under way. Times are since the link's start.
#[derive(Debug)]
struct Flows {
    network: Network,
    card: PortId,
    links: Vec<PortId>,
    begun: u32,
    free: Vec<FlowId>,
}

/// A transfer. Dropped, it is over.
#[derive(Debug)]
pub(super) struct Passing<'a> {
    link: &'a Link,
    /// A flow for each link, with its bytes.
    flows: Vec<(FlowId, f64)>,
    bytes: f64,
    /// When it begins to pass, and the time that it takes at least.
    start: Instant,
    alone: f64,
}

/// Waits are at most a year.
const LONGEST: f64 = 31_536_000.0;

impl Link {
    /// A card with this rate in bytes per second of wall time, and links with theirs in bytes per
    /// second of model time, of which each is `scale` seconds of wall time.
    pub(super) fn new(rate: f64, (links, scale): (&[f64], f64)) -> Link {
        let mut network = Network::new(&[]);
        let card = network.add(rate);
        let links = links.iter().map(|rate| network.add(rate / scale)).collect();
        let flows = Flows { network, card, links, begun: 0, free: Vec::new() };
        let freed = Notify::new();
        Link { rate, scale, start: Instant::now(), flows: Mutex::new(flows), freed }
    }

    /// Wall time of so many bytes alone on the link.
    pub(super) fn time(&self, bytes: f64) -> Duration {
        Duration::from_secs_f64((bytes / self.rate).min(LONGEST))
    }

    /// Starts a transfer of `bytes` bytes, above 0, on a route or, without one, on the card.
    pub(super) fn begin(&self, bytes: f64, route: Option<&Route>) -> Passing<'_> {
        let (mut flows, now) = self.now();
        let flows = &mut *flows;
        let start = Instant::now();
        let Some(route) = route else {
            let flow = (flows.begin(now, flows.card, (bytes, f64::INFINITY)), bytes);
            return Passing { link: self, flows: vec![flow], bytes, start, alone: 0.0 };
        };
        let alone = self.scale * (route.latency + route.per_byte * bytes);
        let loads = route.loads.iter().map(|(at, load)| (flows.links[*at], load * bytes));
        let loads: Vec<_> = loads.filter(|(_, carried)| *carried >= 1.0).collect();
        let begin = |(port, carried): (PortId, f64)| {
            (flows.begin(now, port, (carried, carried / alone.max(1e-9))), carried)
        };
        let flows = loads.into_iter().map(begin).collect();
        Passing { link: self, flows, bytes, start, alone }
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

    /// Starts a flow of some bytes, with a cap in bytes per second.
    fn begin(&mut self, now: Time, port: PortId, (bytes, cap): (f64, f64)) -> FlowId {
        let flow = self.free.pop().unwrap_or_else(|| {
            self.begun += 1;
            FlowId(self.begun - 1)
        });
        let path = Path::new(&[port]).expect("one port is a path");
        self.network.begin(now, flow, Demand { cap, ..Demand::new(path, bytes) });
        self.network.settle(now);
        flow
    }
}

impl Passing<'_> {
    /// Waits until `bytes` of its bytes have passed.
    pub(super) async fn passed(&self, bytes: f64) {
        loop {
            let freed = self.link.freed.notified();
            let Some(due) = self.due((self.bytes - bytes).max(0.0)) else { return };
            tokio::select! {
                () = sleep_until(due) => {}
                () = freed => {}
            }
        }
    }

    /// When to look again whether only `after` of its bytes are left; `None` if that is so.
    fn due(&self, after: f64) -> Option<Instant> {
        let left = after / self.bytes;
        let flows = self.flows.iter();
        let slowest = flows.filter_map(|(flow, all)| self.link.due(*flow, left * all)).max();
        let alone = self.start + Duration::from_secs_f64((self.alone * (1.0 - left)).min(LONGEST));
        let alone = Some(alone).filter(|at| self.alone > 0.0 && *at > Instant::now());
        slowest.max(alone)
    }

    /// Waits until all of it has passed.
    pub(super) async fn over(&self) {
        self.passed(self.bytes).await;
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        let (mut flows, now) = self.link.now();
        for (flow, _) in &self.flows {
            flows.network.end(now, *flow);
            flows.free.push(*flow);
        }
        flows.network.settle(now);
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
        let link = Link::new(MB, (&[MB, 4.0 * MB], 1.0));
        tokio::time::sleep(Duration::from_secs(1)).await;
        link
    }

    /// Passes so many MB in as many pieces.
    async fn pass(link: &Link, pieces: u32) -> u128 {
        let start = Instant::now();
        let passing = link.begin(f64::from(pieces) * MB / 1000.0, None);
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
        let passing = link.begin(MB, None);
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

    /// Passes so many MB on a route in as many pieces.
    async fn follow(link: &Link, route: &Route, mb: u32) -> u128 {
        let start = Instant::now();
        let passing = link.begin(f64::from(mb) * MB, Some(route));
        for piece in 1..=mb {
            passing.passed(f64::from(piece) * MB).await;
        }
        passing.over().await;
        start.elapsed().as_millis()
    }

    // A transfer takes the time of its route, and its latency once. Two that meet on a link share it, and
    // one on another link is not held up.
    #[tokio::test(start_paused = true)]
    async fn routes_share_their_links() {
        let link = link().await;
        let route = |loads: &[(usize, f64)]| {
            let slowest = loads.iter().map(|(at, load)| load / [MB, 4.0 * MB][*at]);
            let per_byte = slowest.fold(0.0, f64::max);
            Route { latency: 0.25, per_byte, loads: loads.to_vec() }
        };
        let (both, second) = (route(&[(0, 0.5), (1, 1.0)]), route(&[(1, 1.0)]));
        assert_eq!(follow(&link, &both, 4).await, 2250);
        assert_eq!(follow(&link, &second, 4).await, 1250);
        // Each of the two puts 2 MB on the first link.
        let (one, other) = tokio::join!(follow(&link, &both, 4), follow(&link, &both, 4));
        assert_eq!((one, other), (4000, 4000));
        // The second link has room for both: 1.8 MB/s and 3.2 MB/s at most.
        let (one, other) = tokio::join!(follow(&link, &both, 4), follow(&link, &second, 4));
        assert!(one <= 2300 && (1250..2000).contains(&other), "{one} {other}");
    }
}
