//! Forms a batch: its requests, the destinations of their KV, and its announcement to the flow
//! machine.

use std::collections::BTreeMap;

use meridian_base::{BatchId, PortId, RequestId, Rng, Time, mix};
use meridian_fabric::Path;
use meridian_flow::{Batch, Input, Member as Planned, PortPlan};

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
        let batch = self.plan(row, &running);
        self.wires.tell(now, Input::BatchArrived(batch));
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

    /// The description of a batch for the machine: its requests, and all its planned transfers.
    fn plan(&self, row: u32, running: &Running) -> Batch {
        let (pool, serving) = (self.pool(row), self.serving(row));
        let layers = f64::from(pool.model.layers);
        let member = |member: &Member| {
            let record = &self.requests[member.request as usize].record;
            let mut plan: Vec<PortPlan> = Vec::new();
            let mut add = |paths: Vec<Path>, tokens: u32, handoff: bool| {
                let bytes = (self.kv_bytes(row, tokens) * layers) as u64;
                for ports in paths.iter().map(ports) {
                    for &port in ports.as_slice() {
                        let at = plan.iter().position(|one| one.port == port);
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
            Planned {
                id: RequestId(u64::from(member.request)),
                // A request that waited past its deadline is served without one.
                deadline: Some(record.due).filter(|due| *due > running.since),
                slo: record.due.since(record.at),
                decode: serving.speed.decode,
                plan,
            }
        };
        let attention = serving.speed.attention(&running.shares);
        Batch {
            id: BatchId(row),
            layers: pool.model.layers as u16,
            layer_time: attention * 2,
            collectives: self.expected(row, running),
            requests: running.members.iter().map(member).collect(),
        }
    }

    /// Bytes of a batch's exchanges by port, as expected from past routing.
    fn expected(&self, row: u32, running: &Running) -> Vec<(PortId, u64)> {
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
        let mut by_port = BTreeMap::new();
        for (rail, bytes) in by_rail.iter().enumerate() {
            for port in ports(ways.path(rail)).as_slice() {
                *by_port.entry(*port).or_insert(0.0) += bytes * off;
            }
        }
        by_port.into_iter().map(|(port, bytes)| (port, bytes as u64)).collect()
    }
}
