//! The flow machines over the fabric: the machines set priorities, and the fabric the resulting rates.
//!
//! A flow crosses the fabric whole, or as the chunks that its sender's machine permits (see
//! [`super::sending`]). Machines hear of progress at the end of each chunk or flow, and of whole flows
//! every millisecond.

mod pieces;

use std::collections::BTreeSet;

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_fabric::Path;
use meridian_flow::{self as flow, Batch, Config, Input, Output, Owner, Place, Stage, Why};

use super::geometry::ports;
use super::nodes::Nodes;
use super::report::{Holding, Slice};
use super::sending::{Enforce, Queues};
use super::setup::{Control, Impossible, Watch};
use super::watch::Watching;
use crate::fabric::Fabric;
use crate::queue::EventQueue;
use crate::rows::Rows;
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
    path: Path,
    bytes: u64,
    reported: u64,
    /// The sender's machine, and the flow's id there.
    node: u32,
    id: FlowId,
    /// What of it crosses the fabric as one piece, and bytes that have not been sent if nothing does.
    piece: Option<FlowId>,
    left: f64,
    /// Bytes that were permitted.
    permitted: u64,
    place: Option<Place>,
    why: Why,
}

/// What crosses the fabric: a flow's row, and how many bytes of it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    flow: u32,
    bytes: u64,
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

/// How flows are sent.
enum Sending {
    /// Whole, at their priority.
    Whole,
    /// By permitted chunks; with the times at which flows with a rate limit ask for the next one.
    Chunks(EventQueue<(u32, u64)>),
    /// Whole, and paused while others are sent.
    Queues(Queues, BTreeSet<PortId>),
}

/// The machines and their ports.
pub(crate) struct Wiring<'a> {
    /// Settings of a machine, with its limits.
    pub(crate) config: Config,
    pub(crate) seed: u64,
    pub(crate) rates: &'a [f64],
    /// By port: the number of the machine of its sender.
    pub(crate) of_port: Vec<u32>,
    pub(crate) control: Option<Control>,
    pub(crate) enforce: Enforce,
    /// Whether senders that enforce an order send chunk by chunk.
    pub(crate) exact: bool,
    /// Whether KV and collectives share the ports; if not, each has its own.
    pub(crate) shared: bool,
    pub(crate) watch: Option<Watch>,
}

/// Machines, fabric and flows.
pub(crate) struct Wires {
    nodes: Nodes,
    rows: Rows<Carried>,
    fabric: Fabric<Piece>,
    rates: Vec<f64>,
    enforce: Enforce,
    sending: Sending,
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
    pub(crate) fn new(wiring: Wiring<'_>) -> Result<Wires, Impossible> {
        let Wiring { config, seed, rates, of_port, control, enforce, exact, shared, watch } =
            wiring;
        Ok(Wires {
            nodes: Nodes::new(config, seed, rates, of_port, control)?,
            rows: Rows::default(),
            fabric: Fabric::new(&rates.repeat(if shared { 1 } else { 2 })),
            rates: rates.to_vec(),
            enforce,
            sending: match (enforce, exact) {
                (Enforce::Host | Enforce::Sender, true) => {
                    Sending::Chunks(EventQueue::new(Duration::ZERO))
                }
                (Enforce::Host | Enforce::Sender, false) => {
                    Sending::Queues(Queues::new(config.chunk), BTreeSet::new())
                }
                (Enforce::Total | Enforce::Classes, _) => Sending::Whole,
            },
            apart: if shared { 0 } else { rates.len() as u32 },
            next_report: Time::ZERO + REPORT,
            watching: watch.map(Watching::new),
            flows: 0,
            demoted: 0,
            timers: 0,
            failed: None,
        })
    }

    /// The machine of the server that sends over a path.
    pub(crate) fn node(&self, path: &Path) -> u32 {
        self.nodes.of_port(path.ports()[0])
    }

    /// The machine of the server that sends by a port.
    pub(crate) fn node_of(&self, port: PortId) -> u32 {
        self.nodes.of_port(port)
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
        let node = self.node(&load.path);
        let row = self.rows.enter(Carried {
            stage,
            owner,
            layer,
            nth_flow: self.flows,
            path: self.path(stage, load.path),
            bytes,
            reported: 0,
            node,
            id: FlowId(0),
            piece: None,
            left: bytes as f64,
            permitted: 0,
            place: None,
            why: Why::Equal,
        });
        self.flows += 1;
        let owner = match stage {
            Stage::Collective => Owner::Batch(BatchId(owner)),
            _ => Owner::Request(RequestId(u64::from(owner))),
        };
        let ports = ports(&load.path);
        let flow = flow::Flow { id: FlowId(row), owner, stage, layer, bytes, ports };
        let id = self.nodes.submit(now, node, row, flow);
        let most = self.nodes.most_flows();
        if id.0 >= most {
            self.fail(Impossible::Overrun { flows: most, at: now });
        }
        self.row(row).id = id;
        self.follow(now);
        if let Sending::Chunks(_) = self.sending {
            self.ask(now, row);
            self.follow(now);
        }
    }

    /// Announces a batch, to each machine its part.
    pub(crate) fn batch_arrived(&mut self, now: Time, parts: Vec<(u32, Batch)>) {
        self.nodes.batch_arrived(now, parts);
        self.follow(now);
    }

    /// Reports the progress of the computation to the machines, and carries out their outputs.
    pub(crate) fn tell(&mut self, now: Time, input: &Input) {
        self.nodes.tell(now, input);
        self.follow(now);
    }

    fn row(&mut self, row: u32) -> &mut Carried {
        self.rows.get_mut(row).expect("an active flow has a row")
    }

    fn follow(&mut self, now: Time) {
        while let Some((row, output)) = self.nodes.poll() {
            match (output, row) {
                (Output::Placed { place, why, .. }, Some(row)) => self.placed(now, row, place, why),
                (Output::Permit { bytes, .. }, Some(row)) => self.permitted(now, row, bytes),
                (Output::Pruned { .. } | Output::Demoted { .. }, _) => self.demoted += 1,
                (Output::Refused { subject, why }, _) => {
                    self.fail(Impossible::Refused { subject, why });
                }
                (Output::Reinstated(_) | Output::Placed { .. } | Output::Permit { .. }, _) => {}
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

    /// Reports the bytes that whole flows have carried before their ends.
    fn report(&mut self, now: Time) {
        for (_, carried) in self.rows.iter_mut() {
            let left = carried.piece.map_or(carried.left, |id| self.fabric.network.left(now, id));
            let sent = (carried.bytes as f64 - left).max(0.0) as u64;
            let sent = sent.min(carried.bytes - 1);
            if sent > carried.reported {
                let bytes = sent - carried.reported;
                carried.reported = sent;
                self.nodes.completed(now, carried.node, carried.id, bytes);
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
        let of = |id: FlowId| Some((id, self.rows.get(flows.get(id.0)?.flow)?));
        let mut all: Vec<_> = ids.filter_map(of).collect();
        let place = |one: &Carried| one.place.unwrap_or_default();
        all.sort_by_key(|(id, one)| (place(one).class, place(one).order, one.nth_flow, *id));
        let holding = |(id, one): (FlowId, &Carried)| Holding {
            flow: one.nth_flow,
            stage: one.stage,
            owner: one.owner,
            layer: one.layer,
            level: place(one).level.0,
            rate: network.rate(id),
            why: one.why,
        };
        let mut found: Vec<Holding> = Vec::new();
        for one in all.into_iter().map(holding) {
            match found.last_mut().filter(|last| last.flow == one.flow) {
                Some(last) => last.rate += one.rate,
                None => found.push(one),
            }
        }
        found
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
        let timers = [report, self.nodes.due(), self.sends()];
        [self.fabric.due()].into_iter().chain(timers).flatten().min()
    }

    fn ended(&mut self, now: Time) -> Option<Carried> {
        loop {
            let (_, Piece { flow: row, bytes }) = self.fabric.ended(now)?;
            let carried = self.row(row);
            let Carried { node, id, reported, .. } = *carried;
            let bytes = match self.sending {
                Sending::Chunks(_) => bytes,
                _ => bytes - reported,
            };
            let carried = self.row(row);
            carried.reported += bytes;
            let over = carried.reported == carried.bytes;
            self.nodes.completed(now, node, id, bytes);
            if !over {
                self.follow(now);
                continue;
            }
            self.nodes.ended(node, id);
            let carried = self.rows.take(row)?;
            if let (Sending::Queues(queues, changed), Some(place)) =
                (&mut self.sending, &carried.place)
            {
                let port = carried.path.ports()[0];
                queues.remove(port, row, place);
                changed.insert(port);
            }
            self.follow(now);
            return Some(carried);
        }
    }

    /// Reports progress and runs the machines' timers if due, and then recomputes the rates.
    fn settle(&mut self, now: Time) {
        if self.next_report <= now {
            self.timers += 1;
            self.next_report = now + REPORT;
            if !matches!(self.sending, Sending::Chunks(_)) {
                self.report(now);
            }
        }
        if self.nodes.due().is_some_and(|due| due <= now) {
            self.timers += 1;
            self.nodes.handle_timeout(now);
            self.follow(now);
        }
        self.send(now);
        self.fabric.settle(now);
        if let Some(mut watching) = self.watching.take() {
            watching.look(now, self);
            self.watching = Some(watching);
        }
    }
}
