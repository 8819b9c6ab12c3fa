//! A permit at the gate of a host: the machine behind its lock, with the system's clock, and a card
//! that is free.

use std::time::Instant;

use anyhow::Context as _;
use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, NewBatch, NewFlow};
use meridian_messages::{Port, Request, Settings};

use super::Options;
use crate::decision::{Quantiles, Row, bounded};

/// Times a chunk's permit and the report of its end, as one client calls them.
pub(super) fn rows(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut settings = Settings::new(vec![Port { name: "out".to_owned(), gbps: 100.0 }]);
    settings.policy.clone_from(&options.policy);
    let gate = Gate::new(&settings, Clock::default()).context("the settings of the measurement")?;
    let request = Request {
        request: 1,
        ttft_left_ms: Some(1e6),
        slo_ms: None,
        decode_ms: 0.0,
        plan: Vec::new(),
    };
    let (layers, layer_us, collectives) = (1, 0.0, Vec::new());
    gate.batch(&NewBatch { batch: 1, layers, layer_us, collectives, requests: vec![request] })?;
    let (chunk, samples) = (settings.chunk, options.samples as u64);
    let bytes = u64::from(chunk) * (samples + samples / 20 + 1);
    let flow = NewFlow { stage: Stage::Handoff, owner: 1, layer: 0, bytes, ports: &[0] };
    let transfer = gate.submit(flow)?;
    let (mut permits, mut ends) = (Vec::new(), Vec::new());
    for nth in 0..samples + samples / 20 {
        let start = Instant::now();
        let permit = gate.permit(transfer, chunk)?;
        let permitted = start.elapsed();
        gate.completed(transfer, permit.bytes.into())?;
        if nth >= samples / 20 {
            permits.push(permitted);
            ends.push(start.elapsed() - permitted);
        }
    }
    let (permits, ends) = (Quantiles::of(permits), Quantiles::of(ends));
    Ok(vec![
        bounded("permit at a gate, p50", "us", permits.p50, 2.0),
        bounded("permit at a gate, p99", "us", permits.p99, 2.0),
        bounded("completion at a gate, p50", "us", ends.p50, 2.0),
        bounded("completion at a gate, p99", "us", ends.p99, 2.0),
    ])
}
