//! Forms a batch: its requests, the destinations of their KV, and its announcement to the flow
//! machine.

use std::collections::BTreeMap;

use meridian_base::{BatchId, Duration, PortId, RequestId, Rng, Time, mix};
use meridian_fabric::Path;
use meridian_flow::{Batch, Member as Planned, PortPlan};

use super::batch::{Forming, Member, Phase, Running};
use super::compute::Shares;
use super::geometry::ports;
use super::kv::Holder;
use super::world::{Event, World};

impl World<'_> {
    /// Forms the replica's next batch, if any request waits.
    pub(crate) fn form(&mut self, now: Time, row: u32) {
        let at = &mut self.replicas[row as usize];
        let (pool, number) = (at.pool, at.number);
        let directory = &self.pools[number].directory;
        let find = |number: u32| self.requests[number as usize].request;
        let forming = Forming { pool, directory, replica: at.nth };
        let mut members = forming.take(&mut at.queue, find);
        if members.is_empty() {
            return;
        }
        for member in &mut members {
            self.send_to(number, member);
            self.requests[member.request as usize].record.matched = member.matched;
        }
        let most = members.iter().map(|one| one.tokens - one.matched).max().unwrap_or(1);
        let mut running = Running {
            members,
            layer: 0,
            generation: 0,
            generations: most.div_ceil(pool.batch_tokens),
            phase: Phase::Fetch,
            shares: Shares::default(),
            waits: 0,
            since: now,
            fetching: vec![0; usize::from(pool.groups())],
        };
        running.divide(pool);
        self.report.batches += 1;
        let parts = self.plan(row, &running);
        self.wires.batch_arrived(now, parts);
        let step = self.pools[number].speed.step(running.members.len());
        self.replicas[row as usize].batch = Some(running);
        self.fetch(now, row);
        self.queue.push(now + step, Event::Computed(row));
    }

    /// Chooses the destination of a member's KV: the decode replica with the fewest bytes on the
    /// way to it.
    fn send_to(&mut self, pool: usize, member: &mut Member) {
        let serving = &mut self.pools[pool];
        let bytes = serving.routing.kv() * f64::from(member.tokens);
        let (to, slot) = serving
            .decode
            .iter_mut()
            .enumerate()
            .min_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.1.1.cmp(&b.1.1)).then(a.0.cmp(&b.0)))
            .expect("a pool has a decode replica");
        let rank = slot.1 % serving.pool.separate_ranks();
        slot.0 += bytes;
        slot.1 += 1;
        member.to = Holder { replica: to as u32, rank };
        let asked = &mut self.requests[member.request as usize];
        (asked.to, asked.bytes) = (to as u32, bytes);
    }

    /// The description of a batch for the machines: to each its requests and planned transfers, as far
    /// as its server sends bytes of them.
    fn plan(&self, row: u32, running: &Running) -> Vec<(u32, Batch)> {
        let (pool, serving) = (self.pool(row), self.serving(row));
        let layer_time = serving.speed.attention(&running.shares) * 2;
        let batch = || Batch {
            id: BatchId(row),
            number: self.report.batches,
            layers: pool.model.layers as u16,
            layer_time,
            collectives: Vec::new(),
            requests: Vec::new(),
        };
        let mut parts: BTreeMap<u32, Batch> = BTreeMap::new();
        for member in &running.members {
            for (node, plan) in self.member_plan(row, member) {
                let planned = self.planned(running, member, serving.speed.decode, plan);
                parts.entry(node).or_insert_with(batch).requests.push(planned);
            }
        }
        for (node, collectives) in self.expected(row, running) {
            parts.entry(node).or_insert_with(batch).collectives = collectives;
        }
        parts.into_iter().collect()
    }

    fn planned(
        &self,
        running: &Running,
        member: &Member,
        decode: Duration,
        plan: Vec<PortPlan>,
    ) -> Planned {
        let record = &self.requests[member.request as usize].record;
        Planned {
            id: RequestId(u64::from(member.request)),
            // A request that waited past its deadline is served without one.
            deadline: Some(record.due).filter(|due| *due > running.since),
            slo: record.due.since(record.at),
            decode,
            plan,
        }
    }

    /// A member's planned transfers, by the machine of their sender. Its own rank's has a part even if
    /// it sends nothing.
    fn member_plan(&self, row: u32, member: &Member) -> BTreeMap<u32, Vec<PortPlan>> {
        let layers = f64::from(self.pool(row).model.layers);
        let own = self.replicas[row as usize].site.gpu(member.rank, 0);
        let mut parts = BTreeMap::from([(self.wires.node_of(self.geometry.out(own)), Vec::new())]);
        let mut add = |paths: Vec<Path>, tokens: u32, handoff: bool| {
            let bytes = (self.kv_bytes(row, tokens) * layers) as u64;
            for path in &paths {
                let plan = parts.entry(self.wires.node(path)).or_default();
                for &port in ports(path).as_slice() {
                    let at = plan.iter().position(|one: &PortPlan| one.port == port);
                    let at = at.unwrap_or_else(|| {
                        plan.push(PortPlan { port, reuse: 0, handoff: 0 });
                        plan.len() - 1
                    });
                    let of = if handoff { &mut plan[at].handoff } else { &mut plan[at].reuse };
                    *of += bytes;
                }
            }
        };
        for &(from, tokens) in &member.fetch {
            add(self.fetch_paths(row, member, from), tokens, false);
        }
        add(self.handoff_paths(row, member), member.tokens, true);
        parts
    }

    /// Bytes of a batch's exchanges by sender and port, as expected from past routing.
    fn expected(&self, row: u32, running: &Running) -> BTreeMap<u32, Vec<(PortId, u64)>> {
        let (pool, serving) = (self.pool(row), self.serving(row));
        let patterns = pool.exchanges().all();
        let ways = &self.replicas[row as usize].ways;
        let mut by_rail = Vec::new();
        for layer in 0..pool.model.layers as u16 {
            for pattern in patterns.clone() {
                ways.load(&serving.routing, pattern, layer, &running.shares, &mut by_rail);
            }
        }
        let name = mix(self.setup.seed, self.report.batches);
        let error = 2.0 * Rng::new(name).unit() - 1.0;
        let off = f64::from(running.generations) * (1.0 + error * self.setup.estimate_error);
        let mut by_port: BTreeMap<(u32, PortId), f64> = BTreeMap::new();
        for (rail, bytes) in by_rail.iter().enumerate() {
            let path = ways.path(rail);
            for port in ports(path).as_slice() {
                *by_port.entry((self.wires.node(path), *port)).or_insert(0.0) += bytes * off;
            }
        }
        let mut parts: BTreeMap<u32, Vec<(PortId, u64)>> = BTreeMap::new();
        for ((node, port), bytes) in by_port {
            parts.entry(node).or_default().push((port, bytes as u64));
        }
        parts
    }
}
