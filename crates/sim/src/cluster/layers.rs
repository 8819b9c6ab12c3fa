//! The progress of a batch through its layers.
//!
//! ```text
//! experts    fetch ─ attention ─ dispatch ─ experts ─ combine ─ next layer
//! sequence   fetch ─ attention beside the ring ─ the rest ─ next layer
//! ```
//! Attention of a layer waits for its fetch. After attention the layer's KV exists and its handoff
//! starts. Every exchange blocks the batch, and that time is counted.

use meridian_base::{BatchId, Time};
use meridian_fabric::{Gpu, Path};
use meridian_flow::{Input, Stage};

use super::batch::{Member, Phase};
use super::compute::loads;
use super::exchange::Pattern;
use super::geometry::Site;
use super::kv::Holder;
use super::setup::Parallel;
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
        for nth in 0..self.running(row).members.len() {
            let member = self.running(row).members[nth].clone();
            for &(from, tokens) in &member.fetch {
                let paths = self.paths(&self.fetch_ways(row, &member, from), member.request);
                let each = self.kv_bytes(self.rows[row as usize].0, tokens);
                for group in 0..pool.groups() {
                    let layers = pool.group(group);
                    let bytes = each * layers.len() as f64;
                    for path in paths.iter().flatten() {
                        let (stage, owner, layer) = (Stage::Reuse, member.request, layers.start);
                        self.wires.carry(now, &Load { stage, owner, layer, bytes, path: *path });
                        self.running(row).fetching[usize::from(group)] += 1;
                    }
                }
            }
        }
    }

    /// Part of a fetch has arrived.
    pub(crate) fn fetched(&mut self, now: Time, request: u32, layer: u16) {
        let row = self.row_of(request);
        let group = layer / self.pool(row).kv_layers;
        let (number, _) = self.rows[row as usize];
        let running = self.running(row);
        running.fetching[usize::from(group)] -= 1;
        let waits = running.phase == Phase::Fetch && running.waits > 0;
        if waits && group == running.layer / self.setup.pools[number as usize].kv_layers {
            if self.running(row).fetching[usize::from(group)] > 0 {
                return;
            }
            let since = self.running(row).since;
            self.report.stalls[number as usize].add(now.since(since).as_secs_f64());
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
        self.wires.tell(now, Input::Layer { batch: BatchId(row), generation, layer });
        if !waits {
            self.attend(now, row);
        }
    }

    /// Computes attention; meanwhile a ring passes KV around.
    fn attend(&mut self, now: Time, row: u32) {
        let (number, _) = self.rows[row as usize];
        let running = self.running(row);
        (running.phase, running.waits) = (Phase::Attention, 1);
        let shares = running.shares.clone();
        let took = self.pools[number as usize].speed.attention(&shares);
        self.running(row).since = now + took;
        self.queue.push(now + took, Event::Computed(row));
        if self.pool(row).parallel == Parallel::Sequence && self.pool(row).ranks > 1 {
            self.exchange(now, row, Pattern::Ring);
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
        for nth in 0..self.running(row).members.len() {
            let member = self.running(row).members[nth].clone();
            let (before, new) = self.running(row).chunk(&member, pool.batch_tokens);
            let first = self.running(row).generation == 0;
            let tokens = if first { before + new } else { new };
            let each = self.kv_bytes(self.rows[row as usize].0, tokens);
            let bytes = each * layers.len() as f64;
            let paths = self.paths(&self.handoff_ways(row, &member), member.request);
            for path in paths.iter().flatten().filter(|_| tokens > 0) {
                let (stage, owner) = (Stage::Handoff, member.request);
                self.wires.carry(now, &Load { stage, owner, layer, bytes, path: *path });
                self.requests[member.request as usize].handing += 1;
            }
        }
    }

    /// Starts an exchange; the phase waits for its flows and for its minimum time.
    fn exchange(&mut self, now: Time, row: u32, pattern: Pattern) {
        let (number, replica) = self.rows[row as usize];
        let running = self.running(row);
        let (layer, context) = (running.layer, running.context);
        let shares = running.shares.clone();
        let serving = &self.pools[number as usize];
        let nvlink = self.geometry.topology.cluster().nvlink_rate;
        let limits = (serving.speed.latency, nvlink);
        let ways = &serving.ways[replica as usize];
        let found = ways.exchange(&serving.routing, pattern, layer, &shares, context, limits);
        self.running(row).waits += found.flows.len() as u32 + 1;
        for (path, bytes) in found.flows {
            let (stage, owner) = (Stage::Collective, row);
            self.wires.carry(now, &Load { stage, owner, layer, bytes, path });
        }
        self.queue.push(now + found.floor, Event::Floor(row));
    }

    /// One of the events that the phase waits for; the last one starts the next phase.
    pub(crate) fn one_less(&mut self, now: Time, row: u32) {
        let (number, _) = self.rows[row as usize];
        let running = self.running(row);
        running.waits -= 1;
        if running.waits > 0 {
            return;
        }
        let (phase, waited) = (running.phase, now.since(running.since).as_secs_f64());
        let many = self.pool(row).ranks > 1;
        let experts = self.pool(row).parallel == Parallel::Experts;
        if many && (phase != Phase::Attention || !experts) {
            self.report.exchanges[number as usize].add(waited);
        }
        match phase {
            Phase::Attention if many && experts => {
                let running = self.running(row);
                (running.phase, running.since) = (Phase::Dispatch, now);
                self.exchange(now, row, Pattern::Dispatch)
            }
            Phase::Attention | Phase::Dispatch => self.rest(now, row),
            _ => self.next_layer(now, row),
        }
    }

    fn rest(&mut self, now: Time, row: u32) {
        let (number, _) = self.rows[row as usize];
        let running = self.running(row);
        running.phase = Phase::Rest;
        let (layer, shares) = (running.layer, running.shares.clone());
        let serving = &self.pools[number as usize];
        let loads = loads(self.pool(row), &shares, serving.routing.weights(layer));
        let took = serving.speed.rest(&shares, loads);
        self.queue.push(now + took, Event::Computed(row));
    }

    /// The rest of a layer is done.
    fn rested(&mut self, now: Time, row: u32) {
        let pool = self.pool(row);
        if pool.parallel == Parallel::Experts && pool.ranks > 1 {
            let running = self.running(row);
            (running.phase, running.since) = (Phase::Combine, now);
            return self.exchange(now, row, Pattern::Combine);
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
    pub(crate) fn kv_bytes(&self, pool: u32, tokens: u32) -> f64 {
        let this = &self.setup.pools[pool as usize];
        let spread = match this.parallel {
            Parallel::Experts => 1.0,
            Parallel::Sequence => f64::from(this.ranks),
        };
        self.pools[pool as usize].routing.kv() * f64::from(tokens) / spread
    }

    /// The paths from the holders of a member's prefix to where it is computed.
    pub(crate) fn fetch_ways(&self, row: u32, member: &Member, from: Holder) -> Vec<(Gpu, Gpu)> {
        let (number, replica) = self.rows[row as usize];
        let sites = &self.geometry.prefill[number as usize];
        let here = sites[replica as usize];
        self.lanes(row, (sites[from.replica as usize], from.rank), (here, member.rank))
    }

    /// The paths from where a member is computed to its decode replica.
    pub(crate) fn handoff_ways(&self, row: u32, member: &Member) -> Vec<(Gpu, Gpu)> {
        let (number, replica) = self.rows[row as usize];
        let here = self.geometry.prefill[number as usize][replica as usize];
        let there = self.geometry.decode[number as usize][member.to.replica as usize];
        self.lanes(row, (here, member.rank), (there, member.to.rank))
    }

    /// Each GPU that holds a part of a request's KV, with its receiver.
    fn lanes(&self, row: u32, from: (Site, u32), to: (Site, u32)) -> Vec<(Gpu, Gpu)> {
        let pool = self.pool(row);
        let lanes = 0..self.geometry.lanes(pool);
        let ranks = match pool.parallel {
            Parallel::Experts => 0..1,
            Parallel::Sequence => 0..pool.ranks,
        };
        let of = |rank: u32| {
            lanes
                .clone()
                .map(move |lane| (from.0.gpu(from.1 + rank, lane), to.0.gpu(to.1 + rank, lane)))
        };
        ranks.flat_map(of).collect()
    }

    /// The paths for these pairs; none if the KV stays on its GPU.
    pub(crate) fn paths(&self, ways: &[(Gpu, Gpu)], salt: u32) -> Vec<Option<Path>> {
        ways.iter().map(|(from, to)| self.geometry.path(*from, *to, u64::from(salt))).collect()
    }
}
