//! Sending through the flow gate: each chunk of a prompt's KV waits for its permit, so that on a busy
//! card the request that is due first goes first.
//!
//! The card is emulated, and a timer wakes late by up to a tick. A chunk is therefore at least
//! [`SPAN`] of the card's time, and a transfer takes its next permits while a chunk passes.

use super::link::Passing;
use super::network::Stream;
use super::serve::write;
use super::{Read, Shared};
use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, NewBatch, NewFlow, Permit, SettingsError, Transfer};
use meridian_wire::flow::{Port, PortPlan, Request, Settings};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time of a chunk on the card, at least.
const SPAN: Duration = Duration::from_millis(4);
/// Blocks of a chunk, at least.
const BLOCKS: usize = 8;
/// The largest chunk of a permit.
const MOST: f64 = 1e9;
/// Chunks on the card at a time if the gate refuses the transfer: as many as its window holds.
const UNGATED: usize = 2;

/// The gate of the card's sending direction.
#[derive(Debug)]
pub(super) struct Outgate {
    gate: Gate,
    /// Blocks of a chunk.
    blocks: usize,
    numbers: AtomicU64,
}

impl Outgate {
    /// A gate for a card of `rate` bytes in a second, by this policy.
    pub(super) fn new(
        policy: &str,
        rate: f64,
        block_bytes: f64,
    ) -> std::result::Result<Outgate, SettingsError> {
        let most = (MOST / block_bytes).max(1.0) as usize;
        let blocks = ((rate * SPAN.as_secs_f64() / block_bytes) as usize).max(BLOCKS).min(most);
        let mut settings =
            Settings::new(vec![Port { name: "out".to_owned(), gbps: rate * 8.0 / 1e9 }]);
        settings.policy = policy.to_owned();
        settings.chunk = (block_bytes * blocks as f64) as u32;
        let start = Instant::now();
        let clock = Clock::new(move || {
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            meridian_base::Time::from_nanos(nanos)
        });
        let gate = Gate::new(&settings, clock)?;
        Ok(Outgate { gate, blocks, numbers: AtomicU64::new(0) })
    }

    /// Announces a handoff. `None` if the gate refuses it, which is no reason not to send.
    fn begin(&self, bytes: u64, due: Option<Instant>) -> Option<Handoff> {
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
        Some(Handoff { gate: self.gate.clone(), number, left, transfer: transfer.ok()? })
    }
}

/// A transfer through the gate. Its request ends with it.
struct Handoff {
    gate: Gate,
    number: u64,
    /// The budget when it began.
    left: Option<Duration>,
    transfer: Transfer,
}

impl Handoff {
    /// Waits for a permit. Whatever is wrong with the gate, the bytes may be sent.
    async fn permit(&self, bytes: u32) -> Permit {
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

    fn try_permit(&self, bytes: u32) -> Option<Permit> {
        match self.transfer.try_permit(bytes) {
            Ok(permit) => permit.map(|permit| self.noted(permit)),
            Err(_) => Some(Permit::open(bytes)),
        }
    }

    fn noted(&self, permit: Permit) -> Permit {
        let why = permit.placed.map(|why| why.to_string());
        tracing::debug!(
            transfer = self.number,
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

/// Sends blocks in chunks, each with a permit and at the card's rate.
pub(super) async fn send(
    gate: &Outgate,
    stream: &mut dyn Stream,
    read: &Read,
    shared: &Shared,
) -> Result<()> {
    let bytes = |blocks: usize| (shared.model_bytes * blocks as f64) as u64;
    let mut handoff = gate.begin(bytes(read.contents.len()), read.due);
    let mut chunks = read.contents.chunks(gate.blocks);
    let mut passing: VecDeque<(&[u64], Passing<'_>)> = VecDeque::with_capacity(UNGATED);
    loop {
        while let Some(&chunk) = chunks.clone().next().as_ref() {
            let size = u32::try_from(bytes(chunk.len())).unwrap_or(u32::MAX);
            match &handoff {
                Some(handoff) if passing.is_empty() => drop(handoff.permit(size).await),
                Some(handoff) if handoff.try_permit(size).is_none() => break,
                None if passing.len() == UNGATED => break,
                Some(_) | None => {}
            }
            chunks.next();
            passing.push_back((chunk, shared.out.begin(bytes(chunk.len()) as f64)));
        }
        let Some((chunk, pass)) = passing.pop_front() else { return Ok(()) };
        pass.over().await;
        drop(pass);
        write(stream, chunk, shared).await?;
        if let Some(handoff) = &mut handoff {
            // It has ended if the gate made room for others.
            let _ = handoff.transfer.completed(bytes(chunk.len()));
        }
    }
}
