//! The progress of a batch through its layers.
//!
//! ```text
//! experts    fetch ─ attention ─ dispatch ─ experts ─ combine ─ next layer
//! tensor     fetch ─ attention ─ all-reduce ─ experts ─ all-reduce ─ next layer
//! sequence   fetch ─ attention beside the ring ─ the rest ─ next layer
//! ```
//! Attention of a layer waits for its fetch. After attention the layer's KV exists and its handoff
//! starts. Every exchange blocks the batch, and that time is counted.

use meridian_base::{BatchId, Time};
use meridian_fabric::Path;
use meridian_flow::{Input, Stage};

use super::batch::{Member, Phase, Running};
use super::compute::loads;
use super::geometry::Site;
use super::kv::Holder;
use super::patterns::Pattern;
use super::setup::Pool;
use super::wires::Load;
use super::world::{Event, World};

impl World<'_> {
    /// A phase of a batch has computed.
    pub(crate) fn phase_computed(&mut self, now: Time, row: u32) {
        match self.running(row).phase {
            Phase::Fetch => self.begin_layer(now, row, 0),
            Phase::Attention => {
                self.attended(now, row);
                self.one_less(now, row);
            }
            Phase::Rest => self.rested(now, row),
            Phase::Head => self.depart(now, row),
            Phase::Dispatch | Phase::Combine => self.one_less(now, row),
        }
    }

    /// Submits the fetches of all layers.
    pub(crate) fn fetch(&mut self, now: Time, row: u32) {
        let pool = self.pool(row);
        for member in self.running(row).members.clone() {
            for &(from, tokens) in &member.fetch {
                let paths = self.fetch_paths(row, &member, from);
                for group in 0..pool.groups() {
                    let layers = pool.group(group);
                    let bytes = self.kv_bytes(row, tokens) * layers.len() as f64;
                    for &path in &paths {
                        let (stage, owner, layer) = (Stage::Reuse, member.request, layers.start);
                        self.wires.carry(now, &Load { stage, owner, layer, bytes, path });
                        self.running(row).fetching[usize::from(group)] += 1;
                    }
                }
            }
        }
    }

    /// Part of a fetch has arrived.
    pub(crate) fn fetched(&mut self, now: Time, request: u32, layer: u16) {
        let row = self.requests[request as usize].row;
        let of = self.pool(row).kv_layers;
        let running = self.running(row);
        let left = &mut running.fetching[usize::from(layer / of)];
        assert!(*left > 0, "request {request} gets more parts of layer {layer} than it fetches");
        *left -= 1;
        let waits = running.phase == Phase::Fetch && running.waits > 0;
        if waits && layer / of == running.layer / of && *left == 0 {
            let stall = now.since(running.since).as_secs_f64();
            self.report.stalls[self.replicas[row as usize].number].add(stall);
            self.attend(now, row);
        }
    }

    fn begin_layer(&mut self, now: Time, row: u32, layer: u16) {
        let group = usize::from(layer / self.pool(row).kv_layers);
        let running = self.running(row);
        (running.layer, running.phase, running.since) = (layer, Phase::Fetch, now);
        let generation = running.generation;
        running.waits = u32::from(running.fetching[group] > 0);
        let waits = running.waits > 0;
        self.wires.tell(now, &Input::Layer { batch: BatchId(row), generation, layer });
        if !waits {
            self.attend(now, row);
        }
    }

    /// Computes attention; meanwhile a ring passes KV around.
    fn attend(&mut self, now: Time, row: u32) {
        let speed = self.serving(row).speed;
        let running = self.running(row);
        let took = speed.attention(&running.shares);
        (running.phase, running.waits, running.since) = (Phase::Attention, 1, now + took);
        self.queue.push(now + took, Event::Computed(row));
        if let Some(pattern) = self.pool(row).exchanges().beside_attention {
            self.exchange(now, row, pattern);
        }
    }

    /// Attention is done: the layer's KV can be sent.
    fn attended(&mut self, now: Time, row: u32) {
        let pool = self.pool(row);
        let layer = self.running(row).layer;
        let layers = pool.group(layer / pool.kv_layers);
        if layer + 1 != layers.end {
            return;
        }
        for member in self.running(row).members.clone() {
            let running = self.running(row);
            let (before, new) = running.chunk(&member, pool.batch_tokens);
            let tokens = if running.generation == 0 { before + new } else { new };
            if tokens == 0 {
                continue;
            }
            let bytes = self.kv_bytes(row, tokens) * layers.len() as f64;
            for path in self.handoff_paths(row, &member) {
                let (stage, owner) = (Stage::Handoff, member.request);
                self.wires.carry(now, &Load { stage, owner, layer, bytes, path });
                self.requests[owner as usize].handing += 1;
            }
        }
    }

    /// Starts an exchange; the phase waits for its flows and for its minimum time.
    fn exchange(&mut self, now: Time, row: u32, pattern: Pattern) {
        let routing = &self.serving(row).routing;
        let at = &self.replicas[row as usize];
        let Running { layer, shares, .. } = at.batch.as_ref().expect("a batch exchanges");
        let (layer, found) = (*layer, at.ways.exchange(routing, pattern, *layer, shares));
        self.running(row).waits += found.flows.len() as u32 + 1;
        for (path, bytes) in found.flows {
            let (stage, owner) = (Stage::Collective, row);
            self.wires.carry(now, &Load { stage, owner, layer, bytes, path });
        }
        self.queue.push(now + found.floor, Event::Floor(row));
    }

    /// One of the events that the phase waits for; the last one starts the next phase.
    pub(crate) fn one_less(&mut self, now: Time, row: u32) {
        let running = self.running(row);
        assert!(running.waits > 0, "a phase of batch {row} waits for nothing, and it happens");
        running.waits -= 1;
        if running.waits > 0 {
            return;
        }
        let (phase, waited) = (running.phase, now.since(running.since).as_secs_f64());
        let exchanges = self.pool(row).exchanges();
        if phase != Phase::Attention || exchanges.beside_attention.is_some() {
            self.report.exchanges[self.replicas[row as usize].number].add(waited);
        }
        match (phase, exchanges.after_attention) {
            (Phase::Attention, Some(pattern)) => {
                let running = self.running(row);
                (running.phase, running.since) = (Phase::Dispatch, now);
                self.exchange(now, row, pattern)
            }
            (Phase::Attention | Phase::Dispatch, _) => self.rest(now, row),
            _ => self.next_layer(now, row),
        }
    }

    fn rest(&mut self, now: Time, row: u32) {
        self.running(row).phase = Phase::Rest;
        let (at, serving) = (&self.replicas[row as usize], self.serving(row));
        let running = at.batch.as_ref().expect("a batch has a rest");
        let loads = loads(at.pool, &running.shares, serving.routing.weights(running.layer));
        let took = serving.speed.rest(&running.shares, loads);
        self.queue.push(now + took, Event::Computed(row));
    }

    /// The rest of a layer is done.
    fn rested(&mut self, now: Time, row: u32) {
        if let Some(pattern) = self.pool(row).exchanges().after_rest {
            let running = self.running(row);
            (running.phase, running.since) = (Phase::Combine, now);
            return self.exchange(now, row, pattern);
        }
        self.next_layer(now, row)
    }

    fn next_layer(&mut self, now: Time, row: u32) {
        let pool = self.pool(row);
        let running = self.running(row);
        let layer = running.layer + 1;
        if u32::from(layer) < pool.model.layers {
            return self.begin_layer(now, row, layer);
        }
        if running.generation + 1 < running.generations {
            for member in running.next_generation(pool) {
                self.computed(now, row, &member);
            }
            return self.begin_layer(now, row, 0);
        }
        running.phase = Phase::Head;
        self.queue.push(now, Event::Computed(row));
    }

    /// KV bytes of `tokens` in one layer, on each path.
    pub(crate) fn kv_bytes(&self, row: u32, tokens: u32) -> f64 {
        let spread = f64::from(self.pool(row).spread());
        self.serving(row).routing.kv() * f64::from(tokens) / spread
    }

    /// The paths from a holder of a member's prefix to where it is computed.
    pub(crate) fn fetch_paths(&self, row: u32, member: &Member, from: Holder) -> Vec<Path> {
        let at = &self.replicas[row as usize];
        let there = self.geometry.prefill[at.number][from.replica as usize];
        self.paths(member.request, at.pool, (there, from.rank), (at.site, member.rank))
    }

    /// The paths from where a member is computed to its decode replica.
    pub(crate) fn handoff_paths(&self, row: u32, member: &Member) -> Vec<Path> {
        let at = &self.replicas[row as usize];
        let there = self.geometry.decode[at.number][member.to.replica as usize];
        self.paths(member.request, at.pool, (at.site, member.rank), (there, member.to.rank))
    }

    /// From each GPU that holds a part of a request's KV to its receiver, unless that is the same.
    fn paths(&self, request: u32, pool: &Pool, from: (Site, u32), to: (Site, u32)) -> Vec<Path> {
        let path = |nth| {
            let [from, to] = [from, to].map(|(site, rank)| site.gpu(rank, nth));
            self.geometry.path(from, to, u64::from(request))
        };
        (0..self.geometry.gpus_of_request(pool)).filter_map(path).collect()
    }
}
