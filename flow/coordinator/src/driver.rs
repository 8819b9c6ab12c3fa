//! The task that owns the machine: messages of nodes in, verdicts out.

use std::collections::HashMap;

use meridian_base::{RequestId, Time};
use meridian_flow::{Config, ConfigError, Coordinator, Report, Ruling};
use meridian_messages::{Batch, Port, ToCoordinator, ToNode, Verdict};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::batches::{Batches, NodeId};
use crate::names::Names;

/// Something that a connection reports.
pub(crate) enum Event {
    /// A node has introduced itself; answers to it go to the sender.
    Joined(NodeId, Vec<Port>, mpsc::Sender<ToNode>),
    /// A further message.
    Said(NodeId, ToCoordinator),
    /// The connection has ended.
    Left(NodeId),
}

pub(crate) struct Driver {
    machine: Coordinator,
    config: Config,
    start: Instant,
    names: Names,
    batches: Batches,
    nodes: HashMap<NodeId, mpsc::Sender<ToNode>>,
}

impl Driver {
    pub(crate) fn new(config: Config) -> Result<Driver, ConfigError> {
        Ok(Driver {
            machine: Coordinator::new(config, 0)?,
            config,
            start: Instant::now(),
            names: Names::default(),
            batches: Batches::new(config.limits.batches),
            nodes: HashMap::new(),
        })
    }

    /// Runs until no connection can report any more.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Event>) {
        loop {
            let due = self.machine.poll_timeout();
            let due = due.map(|at| self.start + std::time::Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(event) => self.event(event),
                    None => return,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    let now = self.now();
                    self.machine.handle_timeout(now);
                    self.forget_old(now);
                }
            }
            self.carry_out();
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Joined(node, ports, answers) => {
                self.nodes.insert(node, answers);
                ports.iter().for_each(|port| self.port(port));
            }
            Event::Said(node, message) => self.said(node, message),
            Event::Left(node) => {
                self.nodes.remove(&node);
                for batch in self.batches.of_node(node) {
                    self.depart(batch);
                }
            }
        }
    }

    fn port(&mut self, port: &Port) {
        let bytes_per_second = port.gbps * 1e9 / 8.0;
        match self.names.add(&port.name, self.config.limits.ports) {
            Some(id) => self.machine.handle(self.now(), Report::Port { id, bytes_per_second }),
            None => tracing::warn!("a node's port has no row: too many ports, or too long a name"),
        }
    }

    fn said(&mut self, node: NodeId, message: ToCoordinator) {
        match message {
            ToCoordinator::Batch(batch) => self.batch(node, &batch),
            ToCoordinator::Departed { batch } => self.depart(batch),
            ToCoordinator::Ended { request } => {
                self.machine.handle(self.now(), Report::Ended(RequestId(request)));
            }
            // A second one changes nothing.
            ToCoordinator::Hello { .. } => {}
        }
    }

    fn batch(&mut self, node: NodeId, batch: &Batch) {
        let now = self.now();
        let Some(row) = self.batches.enter(now, batch.batch, node) else {
            return tracing::debug!(batch = batch.batch, "a batch has no row, or came twice");
        };
        match batch.input(now, row, |name| self.names.id(name)) {
            Ok(batch) => self.machine.handle(now, Report::Batch(batch)),
            Err(error) => tracing::debug!(batch = batch.batch, %error, "a batch is not valid"),
        }
    }

    fn depart(&mut self, batch: u64) {
        if let Some((row, number)) = self.batches.leave(batch) {
            self.machine.handle(self.now(), Report::Departed(row, number));
        }
    }

    /// The machine has forgotten batches whose departure was never reported.
    fn forget_old(&mut self, now: Time) {
        let window = self.config.drop_window.as_nanos();
        let before = now.as_nanos().saturating_sub(u64::try_from(window).unwrap_or(u64::MAX));
        while let Some(batch) = self.batches.older(Time::from_nanos(before.saturating_add(1))) {
            self.batches.leave(batch);
        }
    }

    fn carry_out(&mut self) {
        let now = self.now();
        while let Some(ruling) = self.machine.poll() {
            match ruling {
                Ruling::Verdict(verdict) => {
                    let Some((batch, nodes)) = self.batches.at(verdict.batch) else { continue };
                    let verdict = Verdict::of(now, batch, &verdict, |id| self.names.name(id));
                    for sender in nodes.iter().filter_map(|node| self.nodes.get(node)) {
                        // A node that does not read its verdicts keeps its own order.
                        let _ = sender.try_send(ToNode::Verdict(verdict.clone()));
                    }
                }
                Ruling::Refused { subject, why } => {
                    tracing::debug!(%subject, %why, "a report is refused");
                }
            }
        }
    }
}
