//! The flow machines of a cluster: one that knows everything, or one on each node and a coordinator.
//!
//! A node's machine knows the batches and requests whose bytes the node sends: its replica's own, and
//! those that fetch KV from it. A fetch is requested chunk by chunk, which keeps its sender informed of
//! the layer that the other node computes, so layers are reported to all nodes of a batch at once. Ports
//! of other nodes are known by their rates, and by the bytes that the node itself sends there.

use std::collections::BTreeMap;

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Rng, Time, mix};
use meridian_flow::{
    Batch, Config, Coordinator, Flow, Flows, Input, Output, Report, Ruling, Verdict,
};

use super::setup::{Control, Impossible};
use crate::queue::EventQueue;
use crate::rows::Rows;

/// One machine.
struct Node {
    machine: Flows,
    /// The sender's row of each flow of the machine.
    rows: Rows<u32>,
}

/// The machines, and who knows what.
pub(super) struct Nodes {
    nodes: Vec<Node>,
    /// By port: the machine of the server that sends by it.
    of_port: Vec<u32>,
    /// By batch: its number, and the machines that know it.
    batches: BTreeMap<u32, (u64, Vec<u32>)>,
    /// By request: the machines that know it.
    requests: BTreeMap<RequestId, Vec<u32>>,
    remote: Option<Remote>,
    /// Machines that may have outputs.
    touched: Vec<u32>,
}

/// The coordinator, and its messages.
struct Remote {
    machine: Coordinator,
    control: Control,
    rng: Rng,
    mail: EventQueue<Mail>,
}

enum Mail {
    ToCoordinator(Report),
    ToNode(u32, Verdict),
}

impl Nodes {
    /// Machines for ports with these rates: `of_port` numbers the sender's machine of each port.
    pub(super) fn new(
        config: Config,
        seed: u64,
        rates: &[f64],
        of_port: Vec<u32>,
        control: Option<Control>,
    ) -> Result<Nodes, Impossible> {
        let count = of_port.iter().max().map_or(1, |last| last + 1);
        let ports = || (0..).map(PortId).zip(rates);
        let mut nodes = Vec::new();
        for node in 0..count {
            let mut machine = Flows::new(share(config, count), mix(seed, u64::from(node)))?;
            for (id, rate) in ports() {
                machine.handle(Time::ZERO, Input::Port { id, bytes_per_second: *rate });
            }
            nodes.push(Node { machine, rows: Rows::default() });
        }
        let mut remote = None;
        if let Some(control) = control {
            let mut machine = Coordinator::new(config, seed)?;
            for (id, rate) in ports() {
                machine.handle(Time::ZERO, Report::Port { id, bytes_per_second: *rate });
            }
            let (rng, mail) = (Rng::new(mix(seed, 0x4C4F_5353)), EventQueue::new(Duration::ZERO));
            remote = Some(Remote { machine, control, rng, mail });
        }
        let (batches, requests) = (BTreeMap::new(), BTreeMap::new());
        Ok(Nodes { nodes, of_port, batches, requests, remote, touched: Vec::new() })
    }

    /// The machine of the server that sends by this port.
    pub(super) fn of_port(&self, port: PortId) -> u32 {
        self.of_port[port.index()]
    }

    /// Most flows of one machine.
    pub(super) fn most_flows(&self) -> u32 {
        self.nodes[0].machine.config().limits.flows
    }

    pub(super) fn config(&self) -> &Config {
        self.nodes[0].machine.config()
    }

    /// Announces a batch to the machines that send bytes for it, each with its part.
    pub(super) fn batch_arrived(&mut self, now: Time, parts: Vec<(u32, Batch)>) {
        for (node, part) in parts {
            let known = self.batches.entry(part.id.0).or_default();
            if known.0 != part.number || known.1.is_empty() {
                *known = (part.number, Vec::new());
            }
            known.1.push(node);
            for member in &part.requests {
                self.requests.entry(member.id).or_default().push(node);
            }
            if let Some(remote) = &mut self.remote {
                remote.send(now, Mail::ToCoordinator(Report::Batch(part.clone())));
            }
            self.handle(now, node, Input::BatchArrived(part));
        }
    }

    /// Reports progress to the machines that know its object, and to the coordinator.
    pub(super) fn tell(&mut self, now: Time, input: &Input) {
        let (nodes, report) = match input {
            Input::Layer { batch, .. } => (self.of_batch(*batch), None),
            Input::BatchDeparted(batch) => {
                let (number, nodes) = self.batches.remove(&batch.0).unwrap_or_default();
                (nodes, Some(Report::Departed(*batch, number)))
            }
            Input::Ended(request) => {
                let nodes = self.requests.remove(request).unwrap_or_default();
                (nodes, Some(Report::Ended(*request)))
            }
            _ => unreachable!("other inputs are about flows"),
        };
        for node in nodes {
            self.handle(now, node, input.clone());
        }
        if let (Some(remote), Some(report)) = (&mut self.remote, report) {
            remote.send(now, Mail::ToCoordinator(report));
        }
    }

    fn of_batch(&self, batch: BatchId) -> Vec<u32> {
        self.batches.get(&batch.0).map_or_else(Vec::new, |known| known.1.clone())
    }

    /// Submits the flow with this row of the sender's to a machine; returns its id there.
    pub(super) fn submit(&mut self, now: Time, node: u32, row: u32, flow: Flow) -> FlowId {
        let id = FlowId(self.nodes[node as usize].rows.enter(row));
        self.handle(now, node, Input::Submit(Flow { id, ..flow }));
        id
    }

    pub(super) fn ask(&mut self, now: Time, node: u32, flow: FlowId, bytes: u32) {
        self.handle(now, node, Input::Ask { flow, bytes });
    }

    pub(super) fn completed(&mut self, now: Time, node: u32, flow: FlowId, bytes: u64) {
        self.handle(now, node, Input::Completed { flow, bytes });
    }

    /// Frees a flow's row, after its last byte.
    pub(super) fn ended(&mut self, node: u32, flow: FlowId) {
        self.nodes[node as usize].rows.take(flow.0);
    }

    fn handle(&mut self, now: Time, node: u32, input: Input) {
        self.nodes[node as usize].machine.handle(now, input);
        self.touch(node);
    }

    fn touch(&mut self, node: u32) {
        if self.touched.last() != Some(&node) {
            self.touched.push(node);
        }
    }

    /// The next output of any machine, with the sender's row of the flow that it is about.
    pub(super) fn poll(&mut self) -> Option<(Option<u32>, Output)> {
        while let Some(&node) = self.touched.last() {
            let Node { machine, rows } = &mut self.nodes[node as usize];
            if let Some(output) = machine.poll() {
                let row = match output {
                    Output::Placed { flow, .. } | Output::Permit { flow, .. } => {
                        rows.get(flow.0).copied()
                    }
                    _ => None,
                };
                return Some((row, output));
            }
            self.touched.pop();
        }
        None
    }

    /// When a machine has timed work, or a message arrives.
    pub(super) fn due(&self) -> Option<Time> {
        let machines = self.nodes.iter().filter_map(|node| node.machine.poll_timeout());
        let remote = self.remote.as_ref();
        let mail = remote.and_then(|remote| remote.mail.next());
        let expiry = remote.and_then(|remote| remote.machine.poll_timeout());
        machines.chain(mail).chain(expiry).min()
    }

    /// Does all timed work that is due, and delivers messages.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        for node in 0..self.nodes.len() as u32 {
            let machine = &mut self.nodes[node as usize].machine;
            if machine.poll_timeout().is_some_and(|due| due <= now) {
                machine.handle_timeout(now);
                self.touch(node);
            }
        }
        let Some(mut remote) = self.remote.take() else { return };
        remote.machine.handle_timeout(now);
        while let Some(mail) = remote.mail.pop_by(now) {
            match mail {
                Mail::ToCoordinator(report) => remote.machine.handle(now, report),
                Mail::ToNode(node, verdict) => self.handle(now, node, Input::Verdict(verdict)),
            }
        }
        while let Some(ruling) = remote.machine.poll() {
            // A report that is refused came too late or twice, which a lossy network makes usual.
            let Ruling::Verdict(verdict) = ruling else { continue };
            for node in self.of_batch(verdict.batch) {
                remote.send(now, Mail::ToNode(node, verdict.clone()));
            }
        }
        self.remote = Some(remote);
    }
}

impl Remote {
    /// Sends a message, which takes half of a round trip and may be lost.
    fn send(&mut self, now: Time, mail: Mail) {
        if self.rng.unit() >= self.control.loss {
            self.mail.push(now + self.control.delay / 2, mail);
        }
    }
}

/// A machine's settings if this many share the cluster's tables.
fn share(mut config: Config, machines: u32) -> Config {
    let of = |rows: u32| (rows / machines).max(rows.min(1 << 13));
    config.limits.flows = of(config.limits.flows);
    config.limits.uses = of(config.limits.uses);
    config
}
