//! The timers of a live run's drivers, and the head of an answer.

use meridian_base::{Duration, Time};
use meridian_routing::Load;

use crate::event::Event;
use crate::world::World;

/// How much later than its due time the engine's process sets its timer, to be past it for sure.
const MARGIN: Duration = Duration::from_micros(1);
/// What a gateway takes for the age of a header's report: dispatches younger than this may have
/// been on their way when it was written.
const ON_THE_WAY: Duration = Duration::from_millis(5);

impl World {
    /// When a timer set for `at` fires.
    pub(crate) fn fires(&self, at: Time) -> Time {
        self.queue.rounded(at)
    }

    /// When an engine's timer fires.
    pub(crate) fn engine_fires(&self, at: Time) -> Time {
        match self.twin {
            Some(_) => self.queue.rounded(at + MARGIN),
            None => at,
        }
    }

    /// Turns a replica that was just handed something, or is asked: a process does all that is due
    /// before it answers, and does not wait for others' arrivals of the same instant.
    pub(crate) fn turn_at_once(&mut self, replica: u32) {
        if self.twin.is_some() {
            let there = &mut self.replicas[replica as usize];
            let now = there.clock(self.now);
            there.engine.handle_timeout(now);
            self.pump(replica);
        }
    }

    /// The head of an answer sets out, with the load in it.
    pub(crate) fn answer_head(&mut self, replica: u32, gateway: u16) {
        if !self.twin.is_some_and(|t| t.headers) {
            return;
        }
        let there = &self.replicas[replica as usize];
        let Some(id) = self.gateways[usize::from(gateway)].id_of(replica) else { return };
        // vLLM's header has no running requests and no size in it.
        let load = Load { running: None, kv_tokens: None, ..there.load() };
        let from = there.hardware.region;
        let to = self.gateways[usize::from(gateway)].region;
        let at = self.now + self.network.one_way(from, to, self.report.events);
        let asked = Time::from_nanos(at.as_nanos().saturating_sub(ON_THE_WAY.as_nanos() as u64));
        self.queue.push(at, Event::Report { gateway, id, asked, load: Some(load) });
    }
}
