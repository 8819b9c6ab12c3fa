//! A permit at the gate of a host: the machine behind its lock, with the system's clock, and a card
//! that is free.

use std::time::Instant;

use anyhow::Context as _;
use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, NewBatch, NewFlow};
use meridian_messages::{Port, Request, Settings};

use super::{Options, SAMPLES, WARM_UP};
use crate::harness::{Quantiles, Results};

/// Times a chunk's permit and the report of its end, as one client calls them.
pub(super) fn measure(options: &Options, results: &mut Results) -> anyhow::Result<()> {
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
    let chunk = settings.chunk;
    let bytes = u64::from(chunk) * (SAMPLES + WARM_UP + 1) as u64;
    let flow = NewFlow { stage: Stage::Handoff, owner: 1, layer: 0, bytes, ports: &[0] };
    let transfer = gate.submit(flow)?;
    let (mut permits, mut ends) = (Vec::new(), Vec::new());
    for nth in 0..SAMPLES + WARM_UP {
        let start = Instant::now();
        let permit = gate.permit(transfer, chunk)?;
        let permitted = start.elapsed();
        gate.completed(transfer, permit.bytes.into())?;
        if nth >= WARM_UP {
            permits.push(permitted);
            ends.push(start.elapsed() - permitted);
        }
    }
    results.times("permit at a gate", &Quantiles::of(&permits), [Some(2.0); 2]);
    results.times("completion at a gate", &Quantiles::of(&ends), [Some(2.0); 2]);
    Ok(())
}
