//! The batches whose computation waits for bytes at a port: those with collectives there, and those
//! that fetch KV over it.

use meridian_base::{Duration, PortId, Time};

use super::{Use, World};
use crate::stage::Stage;

impl World {
    /// Enters a batch that arrived at the ports of its early flows.
    pub(crate) fn wait_at_ports(&mut self, batch: u32) {
        for nth in 0..self.batch(batch).collectives.len() {
            let (port, bytes) = self.batch(batch).collectives[nth];
            if bytes > 0 {
                self.wait_at(batch, port);
            }
        }
        for nth in 0..self.batch(batch).requests.len() {
            let mut at = self.request(self.batch(batch).requests[nth]).uses;
            while let Some(Use { port, reuse, next, .. }) = self.uses.get(at as usize).cloned() {
                if reuse > 0 {
                    self.wait_at(batch, port);
                }
                at = next;
            }
        }
    }

    fn wait_at(&mut self, batch: u32, port: PortId) {
        let batches = &mut self.port_batches[port.index()];
        if !batches.contains(&batch) {
            batches.push(batch);
            self.batches[batch as usize].waits_at.push(port);
        }
    }

    /// Removes a batch that departs from the ports of its early flows.
    pub(crate) fn leave_ports(&mut self, batch: u32) {
        let ports = core::mem::take(&mut self.batches[batch as usize].waits_at);
        for port in &ports {
            self.port_batches[port.index()].retain(|one| *one != batch);
        }
        let row = &mut self.batches[batch as usize];
        row.waits_at = ports;
        row.waits_at.clear();
    }

    /// How long handoffs may delay the early flows of the port. Fetches: as long as each batch can
    /// still end by its robust effective deadline. Collectives: not at all. A collective stops all
    /// GPUs of its batch, and with them the requests that are queued behind it, which no deadline of
    /// the batch includes.
    pub(crate) fn slack(&self, now: Time, port: PortId) -> Duration {
        let batches = self.port_batches[port.index()].iter();
        let slack = |batch: &u32| {
            let row = self.batch(*batch);
            if row.collectives.iter().any(|(at, bytes)| *at == port && *bytes > 0) {
                return Duration::ZERO;
            }
            row.red.since(now).saturating_sub(self.service(now, *batch))
        };
        batches.map(slack).min().unwrap_or(Duration::MAX)
    }

    /// When the fetches of a batch become urgent: its remaining service then takes the second
    /// threshold's share of the time to its robust effective deadline. Past is [`Time::ZERO`].
    pub(crate) fn urgent_at(&self, now: Time, batch: u32) -> Time {
        let share = self.edges.above(2.min(self.ladder.levels - 1));
        self.batch(batch).red - self.service(now, batch).div_f64(share)
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
        let bytes = Duration::try_from_secs_f64(slowest).unwrap_or(Duration::MAX);
        self.batch(batch).compute_left(now).saturating_add(bytes)
    }

    /// Remaining bytes of a batch's collectives, by port, in step with its layers.
    pub(crate) fn collectives_left(&self, batch: u32, mut each: impl FnMut(PortId, f64)) {
        let row = self.batch(batch);
        let left = f64::from(row.layers_left()) / f64::from(row.layers);
        row.collectives.iter().for_each(|(port, bytes)| each(*port, *bytes as f64 * left));
    }
}
