//! The batches whose computation waits for bytes at a port: those with collectives there, and those
//! that fetch KV over it.

use alloc::vec::Vec;
use meridian_base::{Duration, PortId, Time};

use super::{RequestRow, Use, World};
use crate::stage::Stage;

/// The share of the time to its deadline from which on a batch's fetches go before the collectives of
/// later batches. Chosen among 1/8, 1/4, 1/2 and 1 on tuning seeds.
const URGENT: f64 = 0.25;

impl World {
    /// Enters a batch that arrived at the ports of its planned early flows.
    pub(crate) fn wait_at_ports(&mut self, batch: u32) {
        for nth in 0..self.batch(batch).collectives.len() {
            let (port, bytes) = self.batch(batch).collectives[nth];
            if bytes > 0 {
                self.wait_at(batch, port, true);
            }
        }
        for nth in 0..self.batch(batch).requests.len() {
            let mut at = self.request(self.batch(batch).requests[nth]).uses;
            while let Some(&Use { port, reuse, next, .. }) = self.uses.get(at as usize) {
                if reuse > 0 {
                    self.wait_at(batch, port, false);
                }
                at = next;
            }
        }
    }

    /// Enters a batch at a port, planned or not.
    pub(crate) fn wait_at(&mut self, batch: u32, port: PortId, collective: bool) {
        let batches = &mut self.port_batches[port.index()];
        match batches.iter_mut().find(|(one, _)| *one == batch) {
            Some((_, has)) => *has |= collective,
            None => {
                batches.push((batch, collective));
                self.batches[batch as usize].waits_at.push(port);
            }
        }
    }

    /// Requests with handoffs at the ports of a batch's early flows, into `into`, each once.
    pub(crate) fn at_ports_of(
        &self,
        batch: u32,
        into: &mut Vec<u32>,
        which: impl Fn(&RequestRow) -> bool,
    ) {
        let uses = self.batch(batch).waits_at.iter().flat_map(|port| self.uses_at(*port));
        let some = uses.filter(|one| one.handoff() > 0 && which(self.request(one.request)));
        into.extend(some.map(|one| one.request));
        into.sort_unstable();
        into.dedup();
    }

    /// Removes a batch that departs from the ports of its early flows.
    pub(crate) fn leave_ports(&mut self, batch: u32) {
        let mut ports = core::mem::take(&mut self.batches[batch as usize].waits_at);
        for port in ports.drain(..) {
            self.port_batches[port.index()].retain(|(one, _)| *one != batch);
        }
        self.batches[batch as usize].waits_at = ports;
    }

    /// How long handoffs may delay the early flows of the port. Fetches: as long as each batch can
    /// still end by its robust effective deadline. Collectives: not at all. A collective stops all
    /// GPUs of its batch, and with them the requests that are queued behind it, which no deadline of
    /// the batch includes.
    pub(crate) fn slack(&self, now: Time, port: PortId) -> Duration {
        let batches = &self.port_batches[port.index()];
        if batches.iter().any(|(_, collective)| *collective) {
            return Duration::ZERO;
        }
        let waits = batches.iter().filter(|(batch, _)| self.fetches_at(*batch, port));
        let slack = |(batch, _): &(u32, bool)| {
            let left = self.batch(*batch).red.since(now);
            left.saturating_sub(self.service(now, *batch))
        };
        waits.map(slack).min().unwrap_or(Duration::MAX)
    }

    /// Whether a batch still has bytes to fetch over the port.
    fn fetches_at(&self, batch: u32, port: PortId) -> bool {
        let mut uses = self.batch(batch).requests.iter().flat_map(|one| self.uses_of(*one));
        uses.any(|one| one.port == port && one.reuse > 0)
    }

    /// When the fetches of a batch become urgent: its remaining service then takes the share
    /// [`URGENT`] of the time to its robust effective deadline. Past is [`Time::ZERO`].
    pub(crate) fn urgent_at(&self, now: Time, batch: u32) -> Time {
        self.batch(batch).red - seconds(self.service(now, batch).as_secs_f64() / URGENT)
    }

    /// Whether a fetch for the batch's current layer is active.
    pub(crate) fn waits_for_fetch(&self, batch: u32) -> bool {
        let first = self.first_of_layer(batch, self.batch(batch).layer);
        let flow = |at: u32| self.flows.get(at as usize).map(|row| (at, row));
        let mut flows = core::iter::successors(flow(first), |(at, _)| flow(self.after(*at)));
        flows.any(|(_, row)| row.stage == Stage::Reuse)
    }

    /// The time that a batch needs alone: its computation, and its bytes at its slowest port.
    pub(crate) fn service(&self, now: Time, batch: u32) -> Duration {
        let mut slowest = 0.0_f64;
        self.collectives_left(batch, |port, bytes| {
            slowest = slowest.max(bytes / self.rates[port.index()]);
        });
        for one in self.batch(batch).requests.iter().flat_map(|request| self.uses_of(*request)) {
            slowest = slowest.max(one.reuse as f64 / self.rates[one.port.index()]);
        }
        self.batch(batch).compute_left(now).saturating_add(seconds(slowest))
    }

    /// Remaining bytes of a batch's collectives, by port, in step with its layers.
    pub(crate) fn collectives_left(&self, batch: u32, mut each: impl FnMut(PortId, f64)) {
        let row = self.batch(batch);
        let left = f64::from(row.layers_left()) / f64::from(row.layers);
        row.collectives.iter().for_each(|(port, bytes)| each(*port, *bytes as f64 * left));
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
