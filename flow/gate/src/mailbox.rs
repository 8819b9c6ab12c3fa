//! The reports of a gate on their way to the thread that sends them to the coordinator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};

use meridian_messages as flow;

/// A report of the gate.
#[derive(Clone, Debug)]
pub(crate) enum GateReport {
    Batch(flow::Batch),
    Departed(u64),
    Ended(u64),
}

/// The way to the thread that sends.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) sender: OnceLock<SyncSender<GateReport>>,
    pub(crate) state: Arc<LinkState>,
}

/// What the gate and the thread know of the connection.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    pub(crate) connected: AtomicBool,
    /// A report was lost, so the coordinator's view is not the node's: connect again.
    pub(crate) behind: AtomicBool,
}

impl Mailbox {
    /// Queues a report. It is made only where a coordinator is configured.
    pub(crate) fn send(&self, report: impl FnOnce() -> GateReport) {
        let Some(sender) = self.sender.get() else { return };
        if sender.try_send(report()).is_err() {
            self.state.behind.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the coordinator is connected; none without one.
    pub(crate) fn is_connected(&self) -> Option<bool> {
        self.sender.get().map(|_| self.state.connected.load(Ordering::Relaxed))
    }
}
