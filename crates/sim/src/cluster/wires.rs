//! The flow machine over the fabric: the machine sets priorities, and the fabric the resulting
//! rates.
//!
//! It drives the machine without permits: it follows `Placed`, as a cluster with strict priorities
//! does, and reports progress at the end of each flow and every millisecond.

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_fabric::{Demand, Path, Priority};
use meridian_flow::{self as flow, Config, Flows, Input, Output, Owner, Place, Stage, Why};

use super::geometry::ports;
use super::report::{Holding, Slice};
use super::setup::{Impossible, Watch};
use super::watch::Watching;
use crate::fabric::Fabric;
use crate::run::Carrier;

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
    bytes: u64,
    reported: u64,
    place: Place,
    why: Why,
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

/// Machine, fabric and flows.
pub(crate) struct Wires {
    machine: Flows,
    fabric: Fabric<Carried>,
    /// Ports that only collectives use, each as many numbers after that of KV; 0 if they share.
    apart: u32,
    next_report: Time,
    watching: Option<Watching>,
    pub(crate) flows: u64,
    pub(crate) demoted: u64,
    /// How often it was due other than for an end.
    pub(crate) timers: u64,
    failed: Option<Impossible>,
}

impl Wires {
    /// A machine with its limits set, over ports with these rates. KV and collectives share them,
    /// or each have their own.
    pub(crate) fn new(
        config: Config,
        seed: u64,
        rates: &[f64],
        shared: bool,
        watch: Option<Watch>,
    ) -> Result<Wires, Impossible> {
        let mut machine = Flows::new(config, seed)?;
        for (port, rate) in rates.iter().enumerate() {
            let id = PortId(port as u32);
            machine.handle(Time::ZERO, Input::Port { id, bytes_per_second: *rate });
        }
        Ok(Wires {
            machine,
            fabric: Fabric::new(&rates.repeat(if shared { 1 } else { 2 })),
            apart: if shared { 0 } else { rates.len() as u32 },
            next_report: Time::ZERO + REPORT,
            watching: watch.map(Watching::new),
            flows: 0,
            demoted: 0,
            timers: 0,
            failed: None,
        })
    }

    /// The fabric's path for a flow of a stage.
    fn path(&self, stage: Stage, path: Path) -> Path {
        if stage != Stage::Collective || self.apart == 0 {
            return path;
        }
        let ports: Vec<_> = path.ports().iter().map(|port| PortId(port.0 + self.apart)).collect();
        Path::new(&ports).expect("as many ports, as different")
    }

    /// Starts a flow.
    pub(crate) fn carry(&mut self, now: Time, load: &Load) {
        let Load { stage, owner, layer, .. } = *load;
        let bytes = load.bytes.max(1.0) as u64;
        let carried = Carried {
            stage,
            owner,
            layer,
            nth_flow: self.flows,
            bytes,
            reported: 0,
            place: Place::default(),
            why: Why::Equal,
        };
        let demand = Demand::new(self.path(stage, load.path), bytes as f64);
        let id = self.fabric.begin(now, demand, carried);
        self.flows += 1;
        let most = self.machine.config().limits.flows;
        if id.0 >= most {
            self.fail(Impossible::Overrun { flows: most, at: now });
        }
        let owner = match stage {
            Stage::Collective => Owner::Batch(BatchId(owner)),
            _ => Owner::Request(RequestId(u64::from(owner))),
        };
        let ports = ports(&load.path);
        self.tell(now, Input::Submit(flow::Flow { id, owner, stage, layer, bytes, ports }));
    }

    /// Reports the progress of the computation to the machine, and carries out its outputs.
    pub(crate) fn tell(&mut self, now: Time, input: Input) {
        self.machine.handle(now, input);
        self.follow(now);
    }

    fn follow(&mut self, now: Time) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Placed { flow, place, why } => {
                    let Some(carried) = self.fabric.flows.get_mut(flow.0) else { continue };
                    (carried.place, carried.why) = (place, why);
                    self.fabric.network.change(now, flow, |demand| {
                        demand.priority = Priority(place.class, place.order);
                        demand.weight = place.weight;
                        demand.cap = place.rate.unwrap_or(f64::INFINITY);
                    });
                }
                Output::Pruned { .. } | Output::Demoted { .. } => self.demoted += 1,
                Output::Refused { subject, why } => {
                    self.fail(Impossible::Refused { subject, why });
                }
                Output::Reinstated(_) | Output::Permit { .. } => {}
            }
        }
    }

    fn fail(&mut self, why: Impossible) {
        self.failed.get_or_insert(why);
    }

    /// The first reason why the run can't go on.
    pub(crate) fn check(&mut self) -> Result<(), Impossible> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Reports the bytes that flows have carried before their ends.
    fn report(&mut self, now: Time) {
        let Fabric { network, flows } = &mut self.fabric;
        for (row, carried) in flows.iter_mut() {
            let flow = FlowId(row);
            let sent = (carried.bytes as f64 - network.left(now, flow)).max(0.0) as u64;
            let sent = sent.min(carried.bytes - 1);
            if sent > carried.reported {
                let bytes = sent - carried.reported;
                carried.reported = sent;
                self.machine.handle(now, Input::Completed { flow, bytes });
            }
        }
        self.follow(now);
    }

    /// The numbers of a port: of KV, and of collectives if they have another.
    fn numbers(&self, port: PortId) -> impl Iterator<Item = PortId> + use<> {
        let other = PortId(port.0 + self.apart);
        std::iter::once(port).chain((other != port).then_some(other))
    }

    /// Flows at a port with their rates, by precedence.
    pub(crate) fn at(&self, port: PortId) -> Vec<Holding> {
        let Fabric { network, flows } = &self.fabric;
        let ids = self.numbers(port).flat_map(|port| network.at(port));
        let mut all: Vec<_> = ids.filter_map(|id| Some((id, flows.get(id.0)?))).collect();
        all.sort_by_key(|(id, one)| (one.place.class, one.place.order, *id));
        let holding = |(id, one): (FlowId, &Carried)| Holding {
            flow: one.nth_flow,
            stage: one.stage,
            owner: one.owner,
            layer: one.layer,
            level: one.place.level.0,
            rate: network.rate(id),
            why: one.why,
        };
        all.into_iter().map(holding).collect()
    }

    /// Bytes that a port has carried.
    pub(crate) fn carried(&self, now: Time, port: PortId) -> f64 {
        self.numbers(port).map(|port| self.fabric.network.carried(now, port)).sum()
    }

    /// The flows at the watched port.
    pub(crate) fn slices(self) -> Vec<Slice> {
        self.watching.map(Watching::slices).unwrap_or_default()
    }
}

impl Carrier for Wires {
    type End = Carried;

    fn due(&mut self) -> Option<Time> {
        let report = (!self.fabric.network.is_empty()).then_some(self.next_report);
        [self.fabric.due(), report, self.machine.poll_timeout()].into_iter().flatten().min()
    }

    fn ended(&mut self, now: Time) -> Option<Carried> {
        let (flow, carried) = self.fabric.ended(now)?;
        let bytes = carried.bytes - carried.reported;
        self.tell(now, Input::Completed { flow, bytes });
        Some(carried)
    }

    /// Reports progress and runs the machine's timers if due, and then recomputes the rates.
    fn settle(&mut self, now: Time) {
        if self.next_report <= now {
            self.timers += 1;
            self.next_report = now + REPORT;
            self.report(now);
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.timers += 1;
            self.machine.handle_timeout(now);
            self.follow(now);
        }
        self.fabric.settle(now);
        if let Some(mut watching) = self.watching.take() {
            watching.look(now, self);
            self.watching = Some(watching);
        }
    }
}
