//! The node's side of the coordinator: what the gate reports, and what comes back.
//!
//! Reports never hold up a transfer: they go into a short queue, which a thread sends. If it is full,
//! or the connection breaks, the node goes on with its own order; after a new connection it reports
//! the batches that compute then.

mod connection;
mod session;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use meridian_base::{PortId, RequestId, Time};
use meridian_flow::{Input, PruneWhy};
use meridian_wire::flow;

use crate::clock::Clock;
use crate::error::SettingsError;
use crate::gate::Gate;
use connection::Node;

/// Reports that wait to be sent.
const QUEUE: usize = 1024;

/// A report of the gate.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Batch(flow::Batch),
    Departed(u64),
    Ended(u64),
}

/// The way to the thread that sends.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    sender: OnceLock<SyncSender<Report>>,
    state: Arc<LinkState>,
}

/// What the gate and the thread know of the connection.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    pub(crate) connected: AtomicBool,
    /// A report was lost, so the coordinator's view is not the node's: connect again.
    pub(crate) behind: AtomicBool,
}

impl Mailbox {
    pub(crate) fn send(&self, report: Report) {
        let Some(sender) = self.sender.get() else { return };
        if sender.try_send(report).is_err() {
            self.state.behind.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the coordinator is connected; none without one.
    pub(crate) fn is_connected(&self) -> Option<bool> {
        self.sender.get().map(|_| self.state.connected.load(Ordering::Relaxed))
    }
}

impl Gate {
    /// A gate that follows the coordinator of the settings, if they name one. It connects in the
    /// background, again and again.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn open(settings: &flow::Settings, clock: Clock) -> Result<Gate, SettingsError> {
        let gate = Gate::new(settings, clock)?;
        let Some(address) = &settings.coordinator else { return Ok(gate) };
        let wrong = |why: &str| SettingsError::Coordinator(address.clone(), why.to_owned());
        let (_, port) = address.rsplit_once(':').ok_or_else(|| wrong("add its port"))?;
        port.parse::<u16>().map_err(|_| wrong("its port is a number up to 65535"))?;
        let (sender, reports) = sync_channel(QUEUE);
        let node = Node {
            address: address.clone(),
            name: settings.node.clone(),
            ports: settings.ports.clone(),
            gate: Arc::downgrade(&gate.0),
            state: gate.0.mailbox.state.clone(),
        };
        let started = std::thread::Builder::new()
            .name("flow-reports".to_owned())
            .spawn(move || node.run(&reports));
        started.map_err(|error| wrong(&format!("its thread can't start: {error}")))?;
        let _ = gate.0.mailbox.sender.set(sender);
        Ok(gate)
    }

    /// The coordinator has ordered a batch.
    pub(crate) fn verdict(&self, verdict: &flow::Verdict) {
        let Some((batch, number)) = self.row_of(verdict.batch) else { return };
        // A verdict on a batch that has departed by now changes nothing, and is no error.
        let _ = self.with(|book, now| {
            book.counts.verdicts += 1;
            let pruned = verdict.pruned.iter().map(|one| {
                let why = PruneWhy {
                    port: book.port(&one.port).unwrap_or(PortId(u32::MAX)),
                    late_by: Duration::from_micros(one.late_us),
                    bytes: one.bytes,
                };
                (RequestId(one.request), why)
            });
            let verdict = meridian_flow::Verdict {
                batch,
                number,
                red: red(now, verdict.red_us),
                requests: verdict.requests,
                pruned: pruned.collect(),
            };
            Ok(book.act(now, Input::Verdict(verdict))?)
        });
    }
}

/// The time `left` microseconds from now.
fn red(now: Time, left: Option<i64>) -> Time {
    let span = |left: i64| Duration::from_micros(left.unsigned_abs());
    match left {
        None => Time::MAX,
        Some(left) if left >= 0 => now + span(left),
        Some(left) => Time::from_nanos(
            now.as_nanos().saturating_sub(u64::try_from(span(left).as_nanos()).unwrap_or(u64::MAX)),
        ),
    }
}
