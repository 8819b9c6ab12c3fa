//! Places requests on the replica with the least cost, and tracks their ends.

use meridian_base::{Duration, RequestId, Time};
use meridian_engine::{BLOCK_TOKENS, Work, blocks_for};
use meridian_routing::Outcome;

use crate::event::Event;
use crate::oracle::{Oracle, Placed};
use crate::replica::Replica;
use crate::report::Fate;
use crate::world::World;

/// How many of the waiting requests are examined when capacity frees up.
const LOOK: usize = 128;

impl World {
    pub(crate) fn enter_oracle(&mut self, id: RequestId) {
        let Some(mut oracle) = self.oracle.take() else { return };
        oracle.placed.resize_with(self.replicas.len(), Vec::new);
        if self
            .replicas
            .iter()
            .any(|r| r.hardware.role.answers() && self.permitted(id, r.hardware.region))
        {
            oracle.waiting.push(id);
        } else {
            let from = self.flights.get(id).map_or(0, |flight| usize::from(flight.region));
            self.end_at_client(id, from, self.now, Fate::Rejected);
        }
        self.place_all(&mut oracle);
        self.oracle = Some(oracle);
    }

    /// Places the requests that fit, the cheapest first.
    fn place_all(&mut self, oracle: &mut Oracle) {
        loop {
            let best = oracle
                .waiting
                .iter()
                .take(LOOK)
                .enumerate()
                .filter_map(|(at, id)| self.best_place(oracle, *id).map(|(cost, r)| (cost, at, r)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, at, replica)) = best else { return };
            let id = oracle.waiting.remove(at);
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
        let prompt_blocks = (flight.prompt_tokens / BLOCK_TOKENS) as usize;
        let prompt = &flight.blocks[..prompt_blocks.min(flight.blocks.len())];
        let matched = there.engine.matched_blocks(prompt);
        let placed = &oracle.placed[at];
        let stats = there.engine.stats();
        let promised: u32 = placed.iter().map(|p| p.blocks).sum();
        let needs = blocks_for(flight.prompt_tokens + flight.reply_tokens) - matched;
        if promised + needs > stats.kv_blocks && !placed.is_empty() {
            return None;
        }
        let (work, balance) = oracle.weights();
        let unmatched = f64::from(flight.prompt_tokens) - f64::from(matched * BLOCK_TOKENS);
        let per_token = per_prefill_token(there);
        let front: f64 = placed.iter().map(|p| p.unmatched).sum();
        let to_come: f64 = placed.iter().map(|p| p.reply).sum();
        let rtt = self.network.rtt(usize::from(flight.region), there.hardware.region);
        Some(
            rtt.as_secs_f64()
                + per_token * (front + unmatched * (1.0 + work))
                + balance * 1e-4 * to_come,
        )
    }

    fn place(&mut self, oracle: &mut Oracle, id: RequestId, replica: usize) {
        let now = self.now;
        let there = self.replicas[replica].hardware.region;
        let matched = {
            let Some(flight) = self.flights.get(id) else { return };
            self.replicas[replica].engine.matched_blocks(&flight.blocks)
        };
        let Some(flight) = self.flights.get_mut(id) else { return };
        flight.attempt += 1;
        flight.dispatches += 1;
        flight.replica = Some(replica as u32);
        let (attempt, from) = (flight.attempt, usize::from(flight.region));
        let total = blocks_for(flight.prompt_tokens + flight.reply_tokens);
        oracle.placed[replica].push(Placed {
            id,
            unmatched: f64::from(flight.prompt_tokens.saturating_sub(matched * BLOCK_TOKENS)),
            reply: f64::from(flight.reply_tokens),
            blocks: total.saturating_sub(matched),
        });
        let delay: Duration = self.network.one_way(from, there, id.0);
        let event = Event::Submit { id, replica: replica as u32, attempt };
        self.queue.push(now + delay, event);
    }

    /// The prefill of a placed request has ended.
    pub(crate) fn oracle_first(&mut self, replica: u32, id: RequestId) {
        let Some(oracle) = &mut self.oracle else { return };
        let placed = oracle.placed[replica as usize].iter_mut().find(|p| p.id == id);
        if let Some(placed) = placed {
            placed.unmatched = 0.0;
        }
    }

    pub(crate) fn oracle_ended(
        &mut self,
        replica: u32,
        id: RequestId,
        from: usize,
        at: Time,
        outcome: Outcome,
    ) {
        let Some(mut oracle) = self.oracle.take() else { return };
        oracle.placed[replica as usize].retain(|p| p.id != id);
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
