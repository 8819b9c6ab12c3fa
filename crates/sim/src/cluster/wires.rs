//! The flow machine over the network: the machine sets priorities, and the network the resulting
//! rates.
//!
//! It drives the machine without permits: it follows `Placed`, as a cluster with strict priorities
//! does, and reports progress at the end of each flow and every millisecond.

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_fabric::{Demand, Network, Path, Priority};
use meridian_flow::{self as flow, Batch, Config, Flows, Input, Output, Owner, Place, Stage, Why};

use super::geometry::ports;
use super::setup::Impossible;

/// How often progress is reported: as often as the machine updates handoffs, or one that is just in
/// time would look infeasible.
const REPORT: Duration = Duration::from_millis(1);

/// An active flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) stage: Stage,
    pub(crate) owner: u32,
    pub(crate) layer: u16,
    /// How many flows started before it.
    pub(crate) nth_flow: u64,
    pub(crate) bytes: u64,
    reported: u64,
    /// Its index among the live ones.
    nth: u32,
    pub(crate) place: Place,
    pub(crate) why: Why,
}

/// Bytes to be carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) stage: Stage,
    /// The request; for a collective the batch.
    pub(crate) owner: u32,
    pub(crate) layer: u16,
    pub(crate) bytes: f64,
    pub(crate) path: Path,
}

/// Machine, network and flows.
pub(crate) struct Wires {
    machine: Flows,
    /// One for all, or one for KV and one for collectives.
    nets: Vec<Network>,
    carried: Vec<Option<Carried>>,
    live: Vec<u32>,
    free: Vec<u32>,
    next_report: Time,
    pub(crate) flows: u64,
    pub(crate) demoted: u64,
    refused: Option<Impossible>,
}

impl Wires {
    /// A machine with its limits set, over ports with these rates; on one network, or on separate
    /// ones for KV and for collectives.
    pub(crate) fn new(
        config: Config,
        seed: u64,
        rates: &[f64],
        shared: bool,
    ) -> Result<Wires, Impossible> {
        let mut machine = Flows::new(config, seed)?;
        for (port, rate) in rates.iter().enumerate() {
            let id = PortId(port as u32);
            machine.handle(Time::ZERO, Input::Port { id, bytes_per_second: *rate });
        }
        let nets = if shared { 1 } else { 2 };
        Ok(Wires {
            machine,
            nets: (0..nets).map(|_| Network::new(rates)).collect(),
            carried: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            next_report: Time::ZERO + REPORT,
            flows: 0,
            demoted: 0,
            refused: None,
        })
    }

    fn net(&mut self, stage: Stage) -> &mut Network {
        let apart = usize::from(stage == Stage::Collective) % self.nets.len();
        &mut self.nets[apart]
    }

    /// Starts a flow and returns its row.
    pub(crate) fn carry(&mut self, now: Time, load: &Load) -> Result<FlowId, Impossible> {
        let row = self.free.pop().unwrap_or(self.carried.len() as u32);
        let most = self.machine.config().limits.flows;
        if row >= most {
            return Err(Impossible::Overrun { flows: most, at: now });
        }
        let (id, bytes) = (FlowId(row), load.bytes.max(1.0) as u64);
        let owner = match load.stage {
            Stage::Collective => Owner::Batch(BatchId(load.owner)),
            _ => Owner::Request(RequestId(u64::from(load.owner))),
        };
        let flow = flow::Flow {
            id,
            owner,
            stage: load.stage,
            layer: load.layer,
            bytes,
            ports: ports(&load.path),
        };
        self.machine.handle(now, Input::Submit(flow));
        let carried = Carried {
            stage: load.stage,
            owner: load.owner,
            layer: load.layer,
            nth_flow: self.flows,
            bytes,
            reported: 0,
            nth: self.live.len() as u32,
            place: Place { level: flow::Level(0), class: 0, order: 0, rate: None },
            why: Why::Equal,
        };
        if self.carried.len() <= row as usize {
            self.carried.resize(row as usize + 1, None);
        }
        self.carried[row as usize] = Some(carried);
        self.live.push(row);
        self.flows += 1;
        let demand = Demand::new(load.path, bytes as f64);
        self.net(load.stage).begin(now, id, demand);
        self.follow(now);
        self.refused.take().map_or(Ok(id), Err)
    }

    /// Reports the progress of the computation to the machine.
    pub(crate) fn tell(&mut self, now: Time, input: Input) -> Result<(), Impossible> {
        self.machine.handle(now, input);
        self.follow(now);
        self.refused.take().map_or(Ok(()), Err)
    }

    pub(crate) fn begin_batch(&mut self, now: Time, batch: Batch) -> Result<(), Impossible> {
        self.tell(now, Input::BatchArrived(batch))
    }

    /// Carries out the machine's outputs.
    fn follow(&mut self, now: Time) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Placed { flow, place, why } => {
                    let Some(carried) = &mut self.carried[flow.index()] else { continue };
                    (carried.place, carried.why) = (place, why);
                    let (stage, cap) = (carried.stage, place.rate.unwrap_or(f64::INFINITY));
                    let priority = Priority(place.class, place.order);
                    self.net(stage).change(now, flow, priority, cap);
                }
                Output::Pruned { .. } | Output::Demoted { .. } => self.demoted += 1,
                Output::Refused { subject, why } => {
                    self.refused = Some(Impossible::Refused { subject, why });
                }
                Output::Reinstated(_) | Output::Permit { .. } => {}
            }
        }
    }

    /// When the next event is due here.
    pub(crate) fn next(&mut self) -> Option<Time> {
        let ends = self.nets.iter_mut().filter_map(Network::next_end).min();
        let report = (!self.live.is_empty()).then_some(self.next_report);
        let due = self.machine.poll_timeout();
        [ends, report, due].into_iter().flatten().min()
    }

    /// Removes and returns a flow that has ended by `now`.
    pub(crate) fn ended(&mut self, now: Time) -> Result<Option<(FlowId, Carried)>, Impossible> {
        let Some(id) = self.nets.iter_mut().find_map(|net| net.ended(now)) else { return Ok(None) };
        let carried = self.carried[id.index()].take().expect("a flow that ends is under way");
        self.live.swap_remove(carried.nth as usize);
        if let Some(&moved) = self.live.get(carried.nth as usize) {
            let moved = self.carried[moved as usize].as_mut().expect("live flows are under way");
            moved.nth = carried.nth;
        }
        self.free.push(id.0);
        let bytes = carried.bytes - carried.reported;
        self.tell(now, Input::Completed { flow: id, bytes })?;
        Ok(Some((id, carried)))
    }

    /// Reports progress and runs the machine's timers if due.
    pub(crate) fn tick(&mut self, now: Time) -> Result<u64, Impossible> {
        let mut events = 0;
        if self.next_report <= now {
            events += 1;
            self.next_report = now + REPORT;
            for at in 0..self.live.len() {
                self.report(now, self.live[at])?;
            }
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            events += 1;
            self.machine.handle_timeout(now);
            self.follow(now);
        }
        self.refused.take().map_or(Ok(events), Err)
    }

    /// Reports the bytes that a flow has carried before its end.
    fn report(&mut self, now: Time, row: u32) -> Result<(), Impossible> {
        let carried = self.carried[row as usize].expect("live flows are under way");
        let left = self.net(carried.stage).left(now, FlowId(row));
        let sent = (carried.bytes as f64 - left).max(0.0) as u64;
        let sent = sent.min(carried.bytes - 1);
        if sent <= carried.reported {
            return Ok(());
        }
        self.carried[row as usize] = Some(Carried { reported: sent, ..carried });
        self.tell(now, Input::Completed { flow: FlowId(row), bytes: sent - carried.reported })
    }

    /// Recomputes the network's rates.
    pub(crate) fn settle(&mut self, now: Time) {
        self.nets.iter_mut().for_each(|net| net.settle(now));
    }

    /// Flows at a port with their rates, by precedence.
    pub(crate) fn at(&self, port: PortId) -> Vec<(FlowId, f64, Carried)> {
        let of = |net: &Network| -> Vec<_> {
            let one = |id: FlowId| {
                let carried = self.carried[id.index()]?;
                Some((id, net.rate(id), carried))
            };
            net.at(port).filter_map(one).collect()
        };
        let mut all: Vec<_> = self.nets.iter().flat_map(of).collect();
        all.sort_by_key(|(id, _, carried)| (carried.place.class, carried.place.order, *id));
        all
    }

    /// Bytes that a port has carried.
    pub(crate) fn carried(&self, now: Time, port: PortId) -> f64 {
        self.nets.iter().map(|net| net.carried(now, port)).sum()
    }
}
