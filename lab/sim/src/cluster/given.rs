//! Explicitly listed flows: ports, the flows across them, and their dependencies.
//!
//! For worked examples and questions about single transfers. The machine, the network and the clock
//! are those of a cluster; computation is only time between flows here. A batch computes the lowest
//! layer with unfinished flows of stages 1 and 2, and departs with the last of them, so the flows
//! alone determine distances. The machine gets a batch's planned transfers in advance.

use std::collections::BTreeMap;

use meridian_base::{BatchId, Duration, PortId, RequestId, Time};
use meridian_fabric::Path;
use meridian_flow::{self as flow, Batch, Input, Member, PortPlan, Stage};

use super::report::{GivenReport, Ran};
use super::sending::Enforce;
use super::setup::{Impossible, Watch};
use super::wires::{Carried, Load, Wires, Wiring};
use crate::queue::EventQueue;
use crate::run::{self, World as _};

/// One run.
#[derive(Clone, Debug)]
pub struct Given {
    /// Seed of the machine's maps; nothing depends on it.
    pub seed: u64,
    /// Rates of the ports, bytes a second.
    pub rates: Vec<f64>,
    /// The requests that the flows belong to.
    pub requests: Vec<GivenRequest>,
    /// The flows.
    pub flows: Vec<GivenFlow>,
    /// By batch: the estimated time to compute one layer, as the machine hears it; 0 if absent.
    pub layer_times: Vec<Duration>,
    /// The policy and its settings. Its limits follow from the flows.
    pub flow: flow::Config,
    /// Where the order holds. Senders that enforce one send chunk by chunk.
    pub enforce: Enforce,
    /// A port whose flows are recorded.
    pub watch: Option<Watch>,
}

/// A request of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenRequest {
    /// Its batch, from 0 without gaps.
    pub batch: u32,
    /// When all of its flows are due.
    pub deadline: Option<Time>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenFlow {
    /// Its request; a collective belongs to the request's batch.
    pub request: u32,
    /// Its stage.
    pub stage: Stage,
    /// The layer that needs it (stages 1 and 2) or made it (stage 3).
    pub layer: u16,
    /// Its size, at least 1.
    pub bytes: u64,
    /// Its ports, the sender's first.
    pub path: Path,
    /// When it can start: this long after `from` and after the last flow of `after` has ended.
    pub release: Duration,
    /// The earliest moment from which `release` counts.
    pub from: Time,
    /// Flows that must end first.
    pub after: Vec<u32>,
}

/// A batch in progress.
#[derive(Debug, Default)]
struct Progress {
    started: bool,
    /// Unfinished flows of stages 1 and 2, by layer.
    early: BTreeMap<u16, u32>,
    layer: Option<u16>,
}

struct GivenWorld<'a> {
    given: &'a Given,
    queue: EventQueue<u32>,
    wires: Wires,
    batches: Vec<Progress>,
    /// By request: unfinished flows.
    left: Vec<u32>,
    /// By flow: the number of flows that it waits for, and those that wait for it.
    waits: Vec<u32>,
    next: Vec<Vec<u32>>,
    report: GivenReport,
    over: usize,
}

/// Runs the flows until the last one ends.
///
/// # Errors
///
/// When flows wait for each other, or the machine refuses an input.
///
/// # Panics
///
/// When a number names no port, request, batch or flow of the lists.
pub fn given(given: &Given) -> Result<GivenReport, Impossible> {
    let mut world = GivenWorld::new(given)?;
    while world.over < given.flows.len() {
        let Some(now) = world.next() else {
            let waiting = given.flows.len() - world.over;
            return Err(Impossible::Waits { waiting });
        };
        world.instant(now);
        world.report.end = now;
        world.wires.check()?;
    }
    Ok(world.finish())
}

impl<'a> GivenWorld<'a> {
    fn new(given: &'a Given) -> Result<GivenWorld<'a>, Impossible> {
        let count = given.requests.iter().map(|one| one.batch + 1).max().unwrap_or(0);
        let mut batches: Vec<Progress> = (0..count).map(|_| Progress::default()).collect();
        let mut left = vec![0; given.requests.len()];
        let mut next = vec![Vec::new(); given.flows.len()];
        let mut queue = EventQueue::new(Duration::ZERO);
        let mut waits = Vec::new();
        for (nth, flow) in (0..).zip(&given.flows) {
            let request = flow.request as usize;
            left[request] += 1;
            if flow.stage.is_early() {
                let batch = &mut batches[given.requests[request].batch as usize];
                *batch.early.entry(flow.layer).or_default() += 1;
            }
            flow.after.iter().for_each(|before| next[*before as usize].push(nth));
            waits.push(flow.after.len() as u32);
            if flow.after.is_empty() {
                queue.push(flow.from + flow.release, nth);
            }
        }
        let mut config = given.flow;
        config.limits = limits(given, count);
        let wires = Wires::new(Wiring {
            config,
            seed: given.seed,
            rates: &given.rates,
            of_port: vec![0; given.rates.len()],
            control: None,
            enforce: given.enforce,
            exact: true,
            shared: true,
            watch: given.watch,
        })?;
        let report = GivenReport {
            flows: vec![Ran::default(); given.flows.len()],
            ..GivenReport::default()
        };
        Ok(GivenWorld { given, queue, wires, batches, left, waits, next, report, over: 0 })
    }

    fn begin(&mut self, now: Time, batch: u32) {
        self.batches[batch as usize].started = true;
        let plan = self.plan(now, batch);
        self.wires.batch_arrived(now, vec![(0, plan)]);
        self.compute(now, batch)
    }

    /// The description of a batch for the machine: all its planned transfers.
    fn plan(&self, now: Time, batch: u32) -> Batch {
        let flows = &self.given.flows;
        let of = |flow: &&GivenFlow| self.given.requests[flow.request as usize].batch == batch;
        let mut collectives = BTreeMap::new();
        for flow in flows.iter().filter(of).filter(|flow| flow.stage == Stage::Collective) {
            for port in flow.path.ports() {
                *collectives.entry(*port).or_insert(0) += flow.bytes;
            }
        }
        let member = |(nth, request): (u32, &GivenRequest)| {
            let mut plan: BTreeMap<PortId, PortPlan> = BTreeMap::new();
            for flow in flows.iter().filter(|flow| flow.request == nth) {
                for &port in flow.path.ports() {
                    let one = plan.entry(port).or_insert(PortPlan { port, reuse: 0, handoff: 0 });
                    match flow.stage {
                        Stage::Reuse => one.reuse += flow.bytes,
                        Stage::Collective => {}
                        Stage::Handoff => one.handoff += flow.bytes,
                    }
                }
            }
            // A request that starts after its deadline is served without one, and is late.
            let deadline = request.deadline.filter(|due| *due > now);
            let slo = deadline.map_or(Duration::MAX, |due| due.since(now));
            let (id, decode) = (RequestId(u64::from(nth)), Duration::ZERO);
            Member { id, deadline, slo, decode, plan: plan.into_values().collect() }
        };
        let members = (0..).zip(&self.given.requests).filter(|(_, one)| one.batch == batch);
        let layers = flows.iter().filter(of).map(|flow| flow.layer).max().unwrap_or(0) + 1;
        Batch {
            id: BatchId(batch),
            number: 0,
            layers,
            layer_time: self.given.layer_times.get(batch as usize).copied().unwrap_or_default(),
            collectives: collectives.into_iter().collect(),
            requests: members.map(member).collect(),
        }
    }

    /// Reports which layer a batch computes, or that it has computed all.
    fn compute(&mut self, now: Time, batch: u32) {
        let progress = &mut self.batches[batch as usize];
        let lowest = progress.early.keys().next().copied();
        let Some(layer) = lowest else {
            return self.wires.tell(now, &Input::BatchDeparted(BatchId(batch)));
        };
        if progress.layer == Some(layer) {
            return;
        }
        progress.layer = Some(layer);
        let (batch, generation) = (BatchId(batch), 0);
        self.wires.tell(now, &Input::Layer { batch, generation, layer })
    }

    fn finish(mut self) -> GivenReport {
        let end = self.report.end;
        let ports = 0..self.given.rates.len() as u32;
        self.report.carried = ports.map(|port| self.wires.carried(end, PortId(port))).collect();
        self.report.given_up = self.wires.demoted;
        self.report.slices = self.wires.slices();
        self.report
    }
}

impl run::World for GivenWorld<'_> {
    /// A flow can start.
    type Event = u32;
    type Carrier = Wires;

    fn ahead(&mut self) -> (&mut EventQueue<u32>, &mut Wires) {
        (&mut self.queue, &mut self.wires)
    }

    fn transferred(&mut self, now: Time, carried: Carried) {
        let nth = self.report.began[carried.nth_flow as usize];
        self.over += 1;
        self.report.flows[nth as usize].ended = now;
        let request = self.given.flows[nth as usize].request;
        let batch = self.given.requests[request as usize].batch;
        if carried.stage.is_early() {
            let early = &mut self.batches[batch as usize].early;
            let left = early.get_mut(&carried.layer).expect("an early flow is counted");
            assert!(*left > 0, "layer {} of batch {batch} has no early flow left", carried.layer);
            *left -= 1;
            if *left == 0 {
                early.remove(&carried.layer);
            }
            self.compute(now, batch);
        }
        assert!(self.left[request as usize] > 0, "flow {nth} of request {request} ends twice");
        self.left[request as usize] -= 1;
        if self.left[request as usize] == 0 {
            self.wires.tell(now, &Input::Ended(RequestId(u64::from(request))));
        }
        for other in std::mem::take(&mut self.next[nth as usize]) {
            assert!(
                self.waits[other as usize] > 0,
                "flow {other} waits for none, and not for {nth}"
            );
            self.waits[other as usize] -= 1;
            if self.waits[other as usize] == 0 {
                let next = &self.given.flows[other as usize];
                self.queue.push(now.max(next.from) + next.release, other);
            }
        }
    }

    /// Starts a flow, and its batch if it is the first.
    fn happen(&mut self, now: Time, nth: u32) {
        let one = &self.given.flows[nth as usize];
        let batch = self.given.requests[one.request as usize].batch;
        if !self.batches[batch as usize].started {
            self.begin(now, batch);
        }
        let owner = if one.stage == Stage::Collective { batch } else { one.request };
        let (stage, layer, bytes, path) = (one.stage, one.layer, one.bytes as f64, one.path);
        self.wires.carry(now, &Load { stage, owner, layer, bytes, path });
        self.report.began.push(nth);
        self.report.flows[nth as usize].began = now;
    }
}

fn limits(given: &Given, batches: u32) -> flow::Limits {
    let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX).clamp(1, 1 << 24);
    let layers = given.flows.iter().map(|flow| flow.layer).max().unwrap_or(0);
    flow::Limits {
        flows: count(given.flows.len()),
        requests: count(given.requests.len()),
        batches: batches.max(1),
        ports: count(given.rates.len()),
        uses: count(given.flows.len() * flow::Ports::MOST),
        layers: layers.saturating_add(1),
    }
}

#[cfg(test)]
mod tests;
