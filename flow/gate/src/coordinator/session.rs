//! One connection to the coordinator.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use meridian_messages::{LONGEST, ToCoordinator, ToNode, VERSION};

use super::connection::Node;
use crate::gate::{Gate, Shared};
use crate::mailbox::{GateReport, LinkState};

/// How often a session without reports looks whether its connection has ended.
const LOOK: Duration = Duration::from_millis(200);

pub(super) struct Session {
    stream: TcpStream,
    /// The batches that the coordinator has heard of and that compute.
    reported: HashSet<u64>,
    over: Arc<AtomicBool>,
}

impl Session {
    /// Introduces the node, and reports what computes now.
    pub(super) fn begin(node: &Node, stream: TcpStream, gate: &Gate) -> Result<Session> {
        let over = Arc::new(AtomicBool::new(false));
        let mut session = Session { stream, reported: HashSet::new(), over };
        let (name, ports) = (node.name.clone(), node.ports.clone());
        session.write(&ToCoordinator::Hello { version: VERSION, node: name, ports })?;
        node.state.behind.store(false, Ordering::Relaxed);
        let reports = gate.with(|state, now| Ok(state.batches.reports(now)));
        for batch in reports.map_err(|_| ErrorKind::Other)? {
            session.send(GateReport::Batch(batch))?;
        }
        let (stream, over) = (session.stream.try_clone()?, session.over.clone());
        let (gate, state) = (node.gate.clone(), node.state.clone());
        std::thread::Builder::new()
            .name("flow-verdicts".to_owned())
            .spawn(move || read(stream, &gate, &state, &over))?;
        Ok(session)
    }

    /// Sends reports until the connection or the gate ends.
    pub(super) fn run(mut self, node: &Node, reports: &Receiver<GateReport>) {
        while !self.over.load(Ordering::Relaxed) && !node.state.behind.load(Ordering::Relaxed) {
            let sent = match reports.recv_timeout(LOOK) {
                Ok(report) => self.send(report),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if sent.is_err() {
                break;
            }
        }
        // Ends the thread that reads.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends a report, unless it is one of a batch that was reported at the connection's begin, or the
    /// end of a batch that was not reported.
    fn send(&mut self, report: GateReport) -> Result<()> {
        match report {
            GateReport::Batch(batch) if self.reported.insert(batch.batch) => {
                self.write(&ToCoordinator::Batch(batch))
            }
            GateReport::Departed(batch) if self.reported.remove(&batch) => {
                self.write(&ToCoordinator::Departed { batch })
            }
            GateReport::Ended(request) => self.write(&ToCoordinator::Ended { request }),
            GateReport::Batch(_) | GateReport::Departed(_) => Ok(()),
        }
    }

    fn write(&mut self, message: &ToCoordinator) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        if line.len() > LONGEST {
            // A batch of that many requests is ordered by this node alone.
            return Ok(());
        }
        self.stream.write_all(&line)
    }
}

/// Reads verdicts until the connection or the gate ends.
fn read(stream: TcpStream, gate: &Weak<Shared>, state: &LinkState, over: &AtomicBool) {
    let end = lines(&stream, gate, state);
    if let Err(error) = end {
        tracing::debug!(%error, "the connection to the flow coordinator ended");
    }
    over.store(true, Ordering::Relaxed);
    let _ = stream.shutdown(Shutdown::Both);
}

fn lines(stream: &TcpStream, gate: &Weak<Shared>, state: &LinkState) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut reader).take(LONGEST as u64).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        match serde_json::from_slice(&line)? {
            ToNode::Welcome { .. } => state.connected.store(true, Ordering::Relaxed),
            ToNode::Refused { why } => {
                tracing::warn!(why, "the flow coordinator refuses this node");
                return Err(Error::from(ErrorKind::ConnectionRefused));
            }
            ToNode::Verdict(verdict) => match gate.upgrade() {
                Some(shared) => Gate(shared).verdict(&verdict),
                None => return Ok(()),
            },
        }
    }
}
