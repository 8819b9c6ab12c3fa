//! The timers of a live run's drivers, and an answer's headers.

use meridian_base::{Duration, Time};
use meridian_routing::Load;

use crate::event::Event;
use crate::world::World;

/// How much later than its due time the engine's process sets its timer, to be safely past it.
const MARGIN: Duration = Duration::from_micros(1);
/// The age that a gateway assumes for a header's report: younger dispatches may have been on their
/// way when it was written.
const ON_THE_WAY: Duration = Duration::from_millis(5);

impl World {
    /// When a timer set for `at` fires.
    pub(super) fn fires(&self, at: Time) -> Time {
        self.queue.rounded(at)
    }

    /// When an engine's timer fires.
    pub(super) fn engine_fires(&self, at: Time) -> Time {
        match self.twin {
            Some(_) => self.queue.rounded(at + MARGIN),
            None => at,
        }
    }

    /// Runs a replica that just received an input or a probe: a process does all that is due before
    /// it answers, and does not wait for other arrivals of the same instant.
    pub(super) fn turn_at_once(&mut self, replica: u32) {
        if self.twin.is_some() {
            let there = &mut self.replicas[replica as usize];
            let now = there.clock(self.now);
            there.engine.handle_timeout(now);
            self.pump(replica);
        }
    }

    /// The answer's headers are sent, with the load in them.
    pub(super) fn answer_head(&mut self, replica: u32, gateway: u16) {
        if !self.twin.is_some_and(|t| t.headers) {
            return;
        }
        let there = &self.replicas[replica as usize];
        let Some(id) = self.gateways[usize::from(gateway)].id_of(replica) else { return };
        // vLLM's header has neither running requests nor the KV size.
        let load = Load { running: None, kv_tokens: None, ..there.load() };
        let from = there.hardware.region;
        let to = self.gateways[usize::from(gateway)].region;
        let at = self.now + self.network.one_way(from, to, self.report.events);
        let asked = Time::from_nanos(at.as_nanos().saturating_sub(ON_THE_WAY.as_nanos() as u64));
        self.queue.push(at, Event::Report { gateway, id, asked, load: Some(load) });
    }
}
