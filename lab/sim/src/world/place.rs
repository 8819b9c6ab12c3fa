//! Places requests on the replica with the least cost, and tracks their ends.

use meridian_base::{RequestId, Time};
use meridian_engine::Work;
use meridian_routing::Outcome;

use crate::event::Event;
use crate::oracle::{Fit, Oracle, Room};
use crate::replica::Replica;
use crate::report::Fate;
use crate::world::World;

impl World {
    pub(super) fn enter_oracle(&mut self, id: RequestId) {
        let Some(mut oracle) = self.oracle.take() else { return };
        oracle.grow(self.replicas.len());
        if self
            .replicas
            .iter()
            .any(|r| r.hardware.role.answers() && self.permitted(id, r.hardware.region))
        {
            oracle.wait(id);
        } else {
            let from = self.flights.get(id).map_or(0, |flight| flight.region());
            self.end_at_client(id, from, self.now, Fate::Rejected);
        }
        self.place_all(&mut oracle);
        self.oracle = Some(oracle);
    }

    /// Places the requests that fit, the cheapest first.
    fn place_all(&mut self, oracle: &mut Oracle) {
        loop {
            let best = oracle
                .examined()
                .iter()
                .enumerate()
                .filter_map(|(at, id)| self.best_place(oracle, *id).map(|(cost, r)| (cost, at, r)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, at, replica)) = best else { return };
            let id = oracle.take(at);
            self.place(oracle, id, replica);
        }
    }

    fn best_place(&self, oracle: &Oracle, id: RequestId) -> Option<(f64, usize)> {
        let may = |r: &usize| {
            let there = &self.replicas[*r];
            let answers = there.hardware.role.answers();
            there.up && answers && !there.leaving && self.permitted(id, there.hardware.region)
        };
        (0..self.replicas.len())
            .filter(may)
            .filter_map(|r| self.cost(oracle, id, r).map(|cost| (cost, r)))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
    }

    /// The cost in seconds of serving a request at a replica; `None` if it does not fit there.
    fn cost(&self, oracle: &Oracle, id: RequestId, at: usize) -> Option<f64> {
        let flight = self.flights.get(id)?;
        let there = &self.replicas[at];
        let text = flight.text();
        let fit = Fit {
            prompt: text.prompt_tokens,
            reply: text.reply_tokens,
            matched: there.engine.matched_blocks(text.prompt_blocks()),
        };
        if !oracle.fits(fit, at, there.engine.stats().kv_blocks) {
            return None;
        }
        let rtt = self.network.rtt(flight.region(), there.hardware.region);
        let room =
            Room { replica: at, rtt: rtt.as_secs_f64(), per_token: per_prefill_token(there) };
        Some(oracle.cost(fit, room))
    }

    fn place(&mut self, oracle: &mut Oracle, id: RequestId, replica: usize) {
        let now = self.now;
        let there = &self.replicas[replica];
        let Some(flight) = self.flights.get_mut(id) else { return };
        let (attempt, from) = (flight.dispatch(now, replica as u32, 0), flight.region());
        let text = flight.text();
        let matched = there.engine.matched_blocks(&text.blocks);
        let (prompt, reply) = (text.prompt_tokens, text.reply_tokens);
        oracle.place(id, replica, Fit { prompt, reply, matched });
        let delay = self.network.one_way(from, there.hardware.region, id.0);
        let event = Event::Submit { id, replica: replica as u32, attempt };
        self.queue.push(now + delay, event);
    }

    /// The prefill of a placed request has ended.
    pub(super) fn oracle_first(&mut self, replica: u32, id: RequestId) {
        if let Some(oracle) = &mut self.oracle {
            oracle.prefilled(id, replica as usize);
        }
    }

    pub(super) fn oracle_ended(
        &mut self,
        replica: u32,
        id: RequestId,
        from: usize,
        at: Time,
        outcome: Outcome,
    ) {
        let Some(mut oracle) = self.oracle.take() else { return };
        oracle.ended(id, replica as usize);
        let fate = match outcome {
            Outcome::Done => Fate::Done,
            Outcome::ClientError => Fate::Invalid,
            _ => Fate::Lost,
        };
        self.end_at_client(id, from, at, fate);
        self.place_all(&mut oracle);
        self.oracle = Some(oracle);
    }
}

/// Seconds that one token of prefill adds to a step of moderate size.
fn per_prefill_token(replica: &Replica) -> f64 {
    let terms = &replica.hardware.engine.profile.terms;
    let mut work = Work::default();
    work.prefill(0, 1024);
    let many = terms.seconds(&work);
    let mut one = Work::default();
    one.prefill(0, 1);
    (many - terms.seconds(&one)) / 1023.0
}
