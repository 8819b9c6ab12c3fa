//! The flow machines over the fabric: the machines set priorities, and the fabric the resulting rates.
//!
//! A flow crosses the fabric whole, or as the chunks that its sender's machine permits (see
//! [`super::sending`]). Machines hear of progress at the end of each chunk or flow, and of whole flows
//! every millisecond.

use std::collections::BTreeSet;

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_fabric::{Demand, Path};
use meridian_flow::{self as flow, Batch, Config, Input, Output, Owner, Place, Stage, Why};

use super::geometry::ports;
use super::hosts::Hosts;
use super::report::{Holding, Slice};
use super::sending::{Change, Enforce, Queues};
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
    host: u32,
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
    hosts: Hosts,
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
            hosts: Hosts::new(config, seed, rates, of_port, control)?,
            rows: Rows::default(),
            fabric: Fabric::new(&rates.repeat(if shared { 1 } else { 2 })),
            rates: rates.to_vec(),
            enforce,
            sending: match (enforce, exact) {
                (Enforce::Host, true) => Sending::Chunks(EventQueue::new(Duration::ZERO)),
                (Enforce::Host, false) => {
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
    pub(crate) fn host(&self, path: &Path) -> u32 {
        self.hosts.of_port(path.ports()[0])
    }

    /// The machine of the server that sends by a port.
    pub(crate) fn host_of(&self, port: PortId) -> u32 {
        self.hosts.of_port(port)
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
        let host = self.host(&load.path);
        let row = self.rows.enter(Carried {
            stage,
            owner,
            layer,
            nth_flow: self.flows,
            path: self.path(stage, load.path),
            bytes,
            reported: 0,
            host,
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
        let id = self.hosts.submit(now, host, row, flow);
        let most = self.hosts.most_flows();
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
        self.hosts.batch_arrived(now, parts);
        self.follow(now);
    }

    /// Reports the progress of the computation to the machines, and carries out their outputs.
    pub(crate) fn tell(&mut self, now: Time, input: &Input) {
        self.hosts.tell(now, input);
        self.follow(now);
    }

    fn row(&mut self, row: u32) -> &mut Carried {
        self.rows.get_mut(row).expect("an active flow has a row")
    }

    fn follow(&mut self, now: Time) {
        while let Some((row, output)) = self.hosts.poll() {
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

    fn placed(&mut self, now: Time, row: u32, place: Place, why: Why) {
        let carried = self.rows.get_mut(row).expect("a placed flow is active");
        let old = carried.place.replace(place);
        carried.why = why;
        let (piece, port) = (carried.piece, carried.path.ports()[0]);
        match &mut self.sending {
            Sending::Whole if piece.is_none() => self.start(now, row),
            Sending::Chunks(_) => return,
            Sending::Queues(queues, changed) => {
                queues.place(port, row, old.as_ref(), &place);
                changed.insert(port);
            }
            Sending::Whole => {}
        }
        if let Some(piece) = piece {
            let priority = self.enforce.priority(&place);
            self.fabric.network.change(now, piece, |demand| {
                (demand.priority, demand.weight) = (priority, f64::from(place.weight));
                demand.cap = place.rate.unwrap_or(f64::INFINITY);
            });
        }
    }

    /// Sends a flow's remaining bytes as one piece.
    fn start(&mut self, now: Time, row: u32) {
        let Carried { path, left, place, bytes, .. } = *self.row(row);
        let place = place.expect("a flow is placed when it is submitted");
        let demand = Demand {
            priority: self.enforce.priority(&place),
            weight: f64::from(place.weight),
            cap: place.rate.unwrap_or(f64::INFINITY),
            ..Demand::new(path, left.max(1.0))
        };
        let piece = self.fabric.begin(now, demand, Piece { flow: row, bytes });
        self.row(row).piece = Some(piece);
    }

    fn pause(&mut self, now: Time, row: u32) {
        let piece = self.row(row).piece.take().expect("a flow under way has a piece");
        let left = self.fabric.network.left(now, piece);
        self.fabric.end(now, piece);
        self.row(row).left = left;
    }

    /// Asks to send a flow's next chunk, if there is one.
    fn ask(&mut self, now: Time, row: u32) {
        let chunk = self.hosts.config().chunk;
        let Carried { host, id, bytes, permitted, .. } = *self.row(row);
        let next = u32::try_from(bytes - permitted).unwrap_or(u32::MAX).min(chunk);
        if next > 0 {
            self.hosts.ask(now, host, id, next);
        }
    }

    /// Sends a chunk, and asks for the next one: at once, so that the port never idles, or when the
    /// flow's rate limit allows.
    fn permitted(&mut self, now: Time, row: u32, bytes: u32) {
        let carried = self.row(row);
        carried.permitted += u64::from(bytes);
        let place = carried.place.expect("a flow is placed when it is submitted");
        let (path, nth) = (carried.path, carried.nth_flow);
        let demand = Demand {
            priority: self.enforce.priority(&place),
            weight: f64::from(place.weight),
            ..Demand::new(path, f64::from(bytes))
        };
        self.fabric.begin(now, demand, Piece { flow: row, bytes: u64::from(bytes) });
        match (&mut self.sending, place.rate) {
            (Sending::Chunks(paced), Some(rate)) => {
                let gap = Duration::try_from_secs_f64(f64::from(bytes) / rate);
                paced.push(now + gap.unwrap_or(Duration::MAX), (row, nth));
            }
            _ => self.ask(now, row),
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
                self.hosts.completed(now, carried.host, carried.id, bytes);
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

    /// Carries out what senders' queues decide, and asks for chunks whose time has come.
    fn send(&mut self, now: Time) {
        if let Sending::Queues(queues, changed) = &mut self.sending {
            changed.extend(queues.ports_due(now));
            while let Sending::Queues(queues, changed) = &mut self.sending
                && let Some(port) = changed.pop_first()
            {
                let rate = self.rates[(port.0 % self.rates.len() as u32) as usize];
                let Change { pause, start } = queues.settle(now, port, rate);
                pause.into_iter().for_each(|row| self.pause(now, row));
                start.into_iter().for_each(|row| self.start(now, row));
            }
        }
        while let Sending::Chunks(paced) = &mut self.sending
            && let Some((row, nth)) = paced.pop_by(now)
        {
            if self.rows.get(row).is_some_and(|one| one.nth_flow == nth) {
                self.ask(now, row);
                self.follow(now);
            }
        }
    }

    /// When [`Self::send`] has work.
    fn sends(&self) -> Option<Time> {
        match &self.sending {
            Sending::Whole => None,
            Sending::Chunks(paced) => paced.next(),
            Sending::Queues(queues, _) => queues.due(),
        }
    }
}

impl Carrier for Wires {
    type End = Carried;

    fn due(&mut self) -> Option<Time> {
        let report = (!self.fabric.network.is_empty()).then_some(self.next_report);
        let timers = [report, self.hosts.due(), self.sends()];
        [self.fabric.due()].into_iter().chain(timers).flatten().min()
    }

    fn ended(&mut self, now: Time) -> Option<Carried> {
        loop {
            let (_, Piece { flow: row, bytes }) = self.fabric.ended(now)?;
            let carried = self.row(row);
            let Carried { host, id, reported, .. } = *carried;
            let bytes = match self.sending {
                Sending::Chunks(_) => bytes,
                _ => bytes - reported,
            };
            let carried = self.row(row);
            carried.reported += bytes;
            let over = carried.reported == carried.bytes;
            self.hosts.completed(now, host, id, bytes);
            if !over {
                self.follow(now);
                continue;
            }
            self.hosts.ended(host, id);
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
        if self.hosts.due().is_some_and(|due| due <= now) {
            self.timers += 1;
            self.hosts.handle_timeout(now);
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
