//! The node's side of the coordinator: reports of batches and verdicts on them.
//!
//! Reports never hold up a transfer: they go into a short queue, which a thread sends. If it is full,
//! or the connection breaks, the node keeps its own order; after a new connection it reports the
//! batches that compute then.

mod connection;
mod session;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use meridian_flow::Input;
use meridian_messages as flow;

use crate::clock::Clock;
use crate::error::SettingsError;
use crate::gate::Gate;
use connection::Node;

/// Reports that wait to be sent.
const QUEUE: usize = 1024;

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
        let _ = self.with(|state, now| {
            state.counts.verdicts += 1;
            let verdict = verdict.input(now, (batch, number), |name| state.port(name));
            Ok(state.act(now, Input::Verdict(verdict))?)
        });
    }
}
