//! The flows of a plan for the simulator.
//!
//! A layer of a batch is: its fetches arrive, each rank computes attention, sends the layer's KV to
//! decode and exchanges tokens, computes the experts' part, and exchanges again. Both ranks wait for
//! both directions of an exchange.

use anyhow::Context as _;
use meridian_base::{Duration, PortId, Time};
use meridian_fabric::Path;
use meridian_flow::{Config, Stage};
use meridian_sim::cluster::{Enforce, Given, GivenFlow, GivenRequest};

use super::plan::{Plan, PlannedBatch, RANKS};

/// The hosts in the order of their ports: host `n` sends by port `2 n` and receives by `2 n + 1`.
/// The first are the ranks.
pub(super) const HOSTS: [&str; 4] = ["a", "b", "decode", "store"];
pub(super) const DECODE: usize = 2;
pub(super) const STORE: usize = 3;

/// The port by which a host sends, and the one by which it receives.
pub(super) fn ports(host: usize) -> [u32; 2] {
    [2 * host as u32, 2 * host as u32 + 1]
}

/// Flows under construction.
struct Flows<'a> {
    plan: &'a Plan,
    flows: Vec<GivenFlow>,
}

/// The simulation of a plan.
///
/// # Errors
/// Never for a plan that was drawn: its paths have two different ports.
pub(super) fn given(plan: &Plan, flow: Config, enforce: Enforce) -> anyhow::Result<Given> {
    let mut all = Flows { plan, flows: Vec::new() };
    let mut last = Vec::new();
    for batch in &plan.batches {
        last = all.batch(batch, &last)?;
    }
    let request = |one: &super::plan::Planned| GivenRequest {
        batch: one.batch,
        deadline: (one.slo > 0.0).then(|| at(one.arrival + one.slo)),
    };
    let time =
        |batch: &PlannedBatch| span(batch.attention[0].max(batch.attention[1]) + batch.experts[0]);
    Ok(Given {
        seed: 1,
        rates: vec![plan.rate; 2 * HOSTS.len()],
        requests: plan.requests.iter().map(request).collect(),
        flows: all.flows,
        layer_times: plan.batches.iter().map(time).collect(),
        flow: Config { chunk: plan.chunk, window: 2 * plan.chunk, ..flow },
        enforce,
        watch: None,
    })
}

impl Flows<'_> {
    /// Adds a batch's flows that start after those in `before`; returns its last exchanges.
    fn batch(&mut self, batch: &PlannedBatch, before: &[u32]) -> anyhow::Result<Vec<u32>> {
        let fetches = self.fetches(batch, before)?;
        let mut last = before.to_vec();
        for layer in 0..self.plan.layers {
            let mut middle = Vec::new();
            for rank in 0..RANKS {
                let own = |one: &&(u32, u16, usize)| (one.1, one.2) == (layer, rank);
                let fetched = fetches.iter().filter(own).map(|one| one.0);
                let after: Vec<u32> = last.iter().copied().chain(fetched).collect();
                let begin = (batch.attention[rank], batch.from, &after[..]);
                middle.push(self.exchange(batch, layer, rank, begin)?);
                for &request in &batch.requests {
                    let one = &self.plan.requests[request as usize];
                    if one.rank == rank {
                        let path = [rank, DECODE];
                        self.add((request, Stage::Handoff, layer, one.handoff), path, begin)?;
                    }
                }
            }
            let mut ends = Vec::new();
            for rank in 0..RANKS {
                let begin = (batch.experts[rank], 0.0, &middle[..]);
                ends.push(self.exchange(batch, layer, rank, begin)?);
            }
            last = ends;
        }
        Ok(last)
    }

    /// All fetches of a batch: their flows, layers and ranks.
    fn fetches(
        &mut self,
        batch: &PlannedBatch,
        before: &[u32],
    ) -> anyhow::Result<Vec<(u32, u16, usize)>> {
        let mut found = Vec::new();
        for layer in 0..self.plan.layers {
            for &request in &batch.requests {
                let one = &self.plan.requests[request as usize];
                if one.fetch > 0 {
                    let begin = (0.0, batch.from, before);
                    let about = (request, Stage::Reuse, layer, one.fetch);
                    found.push((self.add(about, [STORE, one.rank], begin)?, layer, one.rank));
                }
            }
        }
        Ok(found)
    }

    fn exchange(
        &mut self,
        batch: &PlannedBatch,
        layer: u16,
        rank: usize,
        begin: (f64, f64, &[u32]),
    ) -> anyhow::Result<u32> {
        let about = (batch.requests[0], Stage::Collective, layer, batch.exchange[rank]);
        self.add(about, [rank, 1 - rank], begin)
    }

    /// Adds a flow from one host to another: this long after the flows in `after`, not before `from`.
    fn add(
        &mut self,
        (request, stage, layer, bytes): (u32, Stage, u16, u64),
        [from, to]: [usize; 2],
        (release, earliest, after): (f64, f64, &[u32]),
    ) -> anyhow::Result<u32> {
        let path = Path::new(&[PortId(ports(from)[0]), PortId(ports(to)[1])]);
        self.flows.push(GivenFlow {
            request,
            stage,
            layer,
            bytes,
            path: path.context("a flow crosses two ports")?,
            release: span(release),
            from: at(earliest),
            after: after.to_vec(),
        });
        Ok(self.flows.len() as u32 - 1)
    }
}

fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn at(seconds: f64) -> Time {
    Time::ZERO + span(seconds)
}
