//! The thread that connects to the coordinator, again and again.

use std::io::{Error, ErrorKind, Result};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use meridian_messages as flow;

use super::session::Session;
use crate::gate::{Gate, Shared};
use crate::mailbox::{GateReport, LinkState};

/// Limit of a connect, and of a write.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two attempts, doubled after each.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// The node as the coordinator knows it.
pub(super) struct Node {
    pub(super) address: String,
    pub(super) name: String,
    pub(super) ports: Vec<flow::Port>,
    pub(super) gate: Weak<Shared>,
    pub(super) state: Arc<LinkState>,
}

impl Node {
    /// Runs until the gate is closed.
    pub(super) fn run(self, reports: &Receiver<GateReport>) {
        let mut pause = PAUSES[0];
        while let Some(gate) = self.gate.upgrade().map(Gate) {
            let session = self.connect().and_then(|stream| Session::begin(&self, stream, &gate));
            drop(gate);
            match session {
                Ok(session) => {
                    pause = PAUSES[0];
                    session.run(&self, reports);
                    if self.state.connected.swap(false, Ordering::Relaxed) {
                        tracing::warn!(
                            address = self.address,
                            "the flow coordinator is gone: this node keeps its own order"
                        );
                    }
                }
                Err(error) => {
                    tracing::debug!(address = self.address, %error, "no flow coordinator");
                }
            }
            if !forget(reports, pause) {
                return;
            }
            pause = (2 * pause).min(PAUSES[1]);
        }
    }

    fn connect(&self) -> Result<TcpStream> {
        let mut last = Error::from(ErrorKind::NotFound);
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Drops reports for a while: there is no coordinator to hear them. Returns whether the gate is still
/// open.
fn forget(reports: &Receiver<GateReport>, pause: Duration) -> bool {
    let until = Instant::now() + pause;
    loop {
        match reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
