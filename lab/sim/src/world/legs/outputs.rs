//! What an engine says of a leg.

use meridian_base::{RequestId, Time};
use meridian_engine::{BLOCK_TOKENS, Output, Refusal, StopReason};
use meridian_routing::Outcome;

use crate::event::Event;
use crate::legs::{HANDSHAKE, Handoff, Message};
use crate::world::World;

impl World {
    pub(in crate::world) fn leg_said(&mut self, replica: u32, output: Output) {
        if let Output::Released { expired: true, .. } = output {
            self.report.leases_expired += 1;
        }
        let name = output.id();
        let Some(handoff) = self.legs.get(name) else { return };
        match replica == handoff.from() {
            true => self.prefill_said(name, handoff, output),
            false => self.decode_said(name, handoff, output),
        }
    }

    fn prefill_said(&mut self, name: RequestId, handoff: Handoff, output: Output) {
        let (id, from) = (handoff.request(), handoff.from());
        match output {
            Output::Finished { why: StopReason::Stop | StopReason::Length, at, usage, .. } => {
                let at = self.replicas[from as usize].wall(at);
                let current = self.flights.get_mut(id);
                let current = current.filter(|f| f.split().is_some_and(|split| split.name == name));
                if let Some(flight) = current {
                    flight.found(usage.cached_tokens);
                    self.stream_prefilled(from, id, at);
                }
            }
            Output::Refused { at, why, .. } => {
                let at = self.replicas[from as usize].wall(at);
                self.stream_end(from, id, at, refused(why));
            }
            _ => {}
        }
    }

    fn decode_said(&mut self, name: RequestId, handoff: Handoff, output: Output) {
        let (id, to) = (handoff.request(), handoff.to());
        let wall = |at: Time| self.replicas[to as usize].wall(at);
        match output {
            Output::Deferred { missing_blocks, .. } => self.ask_for_kv(name, missing_blocks),
            Output::Tokens { at, .. } => {
                let at = wall(at);
                self.stream_first(to, id, at);
            }
            Output::Finished { why, at, .. } => {
                let at = wall(at);
                self.leg_ended(name, handoff, why != StopReason::Error);
                match why {
                    StopReason::Abort => {}
                    StopReason::Error => self.stream_end(to, id, at, Outcome::EngineError),
                    _ => self.stream_end(to, id, at, Outcome::Done),
                }
            }
            Output::Refused { at, why, .. } => {
                let at = wall(at);
                self.leg_ended(name, handoff, true);
                self.stream_end(to, id, at, refused(why));
            }
            _ => {}
        }
    }

    /// A decode leg has KV for its prompt, and asks for the blocks that it lacks.
    fn ask_for_kv(&mut self, name: RequestId, missing_blocks: u32) {
        let now = self.now;
        let Some(handoff) = self.legs.get(name) else { return };
        let to = handoff.to();
        let model = &self.replicas[to as usize].hardware.engine.profile.model;
        let bytes = f64::from(missing_blocks * BLOCK_TOKENS) * model.kv_bytes(1);
        self.legs.ask(name, now, bytes);
        self.tell_holder(name, handoff, Message::Read);
        // If no answer comes, because the other engine is suspended or the path is cut, it gives up.
        let event = Event::Kv { name, replica: to, message: Message::Failed };
        self.queue.push(now + HANDSHAKE, event);
    }

    /// A decode leg has left its engine, which frees the KV elsewhere if it `frees` any.
    fn leg_ended(&mut self, name: RequestId, handoff: Handoff, frees: bool) {
        self.legs.end(self.now, name);
        if frees && !handoff.is_fetched() {
            self.tell_holder(name, handoff, Message::Release);
        }
    }
}

/// The outcome of a refusal.
pub(in crate::world) fn refused(why: Refusal) -> Outcome {
    match why {
        Refusal::Full { .. } => Outcome::Full,
        _ => Outcome::ClientError,
    }
}
