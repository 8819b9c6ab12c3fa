//! The gate of an engine's card: announces each transfer of KV, and waits for its permits.

use meridian_base::Time;
use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, NewBatch, NewFlow, Permit, SettingsError, Transfer};
use meridian_messages::{Port, PortPlan, Request, Settings};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time of a chunk on the card, at least.
const SPAN: Duration = Duration::from_millis(4);
/// Blocks of a chunk, at least.
const BLOCKS: usize = 8;
/// The largest chunk of a permit.
const MOST: f64 = 1e9;

/// The gate of the card's sending direction.
#[derive(Debug)]
pub(super) struct Outgate {
    gate: Gate,
    /// Blocks of a chunk.
    pub(super) blocks: usize,
    numbers: AtomicU64,
}

impl Outgate {
    /// A gate for a card of `rate` bytes in a second, by this policy.
    pub(super) fn new(policy: &str, rate: f64, block_bytes: f64) -> Result<Outgate, SettingsError> {
        let most = (MOST / block_bytes).max(1.0) as usize;
        let blocks = ((rate * SPAN.as_secs_f64() / block_bytes) as usize).max(BLOCKS).min(most);
        let mut settings =
            Settings::new(vec![Port { name: "out".to_owned(), gbps: rate * 8.0 / 1e9 }]);
        settings.policy = policy.to_owned();
        settings.chunk = (block_bytes * blocks as f64) as u32;
        let start = Instant::now();
        let clock = Clock::new(move || {
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Time::from_nanos(nanos)
        });
        let gate = Gate::new(&settings, clock)?;
        Ok(Outgate { gate, blocks, numbers: AtomicU64::new(0) })
    }

    /// Announces a handoff. `None` if the gate refuses it, which is no reason not to send.
    pub(super) fn begin(&self, name: &str, bytes: u64, due: Option<Instant>) -> Option<Handoff> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let plan = vec![PortPlan { port: "out".to_owned(), reuse: 0, handoff: bytes }];
        let request = Request {
            request: number,
            ttft_left_ms: left.map(|left| left.as_secs_f64() * 1e3),
            slo_ms: None,
            decode_ms: 0.0,
            plan,
        };
        let (layers, layer_us, collectives) = (1, 0.0, Vec::new());
        let requests = vec![request];
        let batch = NewBatch { batch: number, layers, layer_us, collectives, requests };
        let flow = NewFlow { stage: Stage::Handoff, owner: number, layer: 0, bytes, ports: &[0] };
        let announced = self.gate.batch(&batch).and_then(|()| self.gate.departed(number));
        let transfer = announced.and_then(|()| self.gate.transfer(flow));
        let transfer = transfer.inspect_err(|error| tracing::debug!(%error, "sent without permit"));
        let (gate, name) = (self.gate.clone(), name.to_owned());
        Some(Handoff { gate, number, name, left, transfer: transfer.ok()? })
    }
}

/// A transfer through the gate. Its request ends with it.
pub(super) struct Handoff {
    gate: Gate,
    number: u64,
    /// The request's `remote_request_id`.
    name: String,
    /// The budget when it began.
    left: Option<Duration>,
    transfer: Transfer,
}

impl Handoff {
    /// Waits for a permit. Whatever is wrong with the gate, the bytes may be sent.
    pub(super) async fn permit(&self, bytes: u32) -> Permit {
        loop {
            let wait = poll_fn(|context| self.transfer.poll_permit(bytes, context));
            match timeout(self.gate.hold(), wait).await {
                Ok(Ok(permit)) => return self.noted(permit),
                Ok(Err(_)) => return Permit::open(bytes),
                // Looks whether the card has stalled.
                Err(_) => {}
            }
        }
    }

    pub(super) fn try_permit(&self, bytes: u32) -> Option<Permit> {
        match self.transfer.try_permit(bytes) {
            Ok(permit) => permit.map(|permit| self.noted(permit)),
            Err(_) => Some(Permit::open(bytes)),
        }
    }

    /// Bytes of it have been sent.
    pub(super) fn completed(&mut self, bytes: u64) {
        // It has ended if the gate made room for others.
        let _ = self.transfer.completed(bytes);
    }

    fn noted(&self, permit: Permit) -> Permit {
        let why = permit.placed.map(|why| why.to_string());
        tracing::debug!(
            request = self.name,
            ttft_left_ms = self.left.map(|left| left.as_millis()),
            bytes = permit.bytes,
            level = permit.level.0,
            traffic_class = permit.traffic,
            waited_us = permit.waited.as_micros(),
            why,
            "permit"
        );
        permit
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        let _ = self.gate.ended(self.number);
    }
}
