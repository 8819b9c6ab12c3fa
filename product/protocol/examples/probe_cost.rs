//! The cost of a probe: microseconds to read each recorded page, and the share of a core that a
//! thousand replicas take at one probe each 100 ms.
//!
//! `cargo run --release -p meridian-wire --example probe_cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use meridian_protocol::engines::{Answers, detect, find};
use meridian_protocol::signals::{orca, usage};

macro_rules! page {
    ($path:literal) => {
        ($path, include_bytes!(concat!("../src/signals/fixtures/", $path)).as_slice())
    };
}

/// The best of several rounds: the cost when nothing else uses the core.
fn micros(mut work: impl FnMut()) -> f64 {
    const CALLS: u32 = 200;
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| work());
        start.elapsed()
    };
    let best = (0..50).map(|_| round(&mut work)).min().unwrap_or(Duration::ZERO);
    best.as_secs_f64() * 1e6 / f64::from(CALLS)
}

fn row(what: &str, page: (&str, &[u8]), work: impl FnMut()) {
    let micros = micros(work);
    let (name, bytes) = page;
    // A thousand replicas, ten probes a second each.
    let core = micros * 1000.0 * 10.0 / 1e6 * 100.0;
    let rate = bytes.len() as f64 / micros / 1000.0;
    println!(
        "{what:<9} {name:<40} {:>6} B {micros:>8.2} us {rate:>6.1} GB/s {core:>7.2} % of a core per 1,000 replicas",
        bytes.len()
    );
}

fn main() {
    let engine = |name| find(name).expect("an engine of the table");
    for (name, page) in [
        ("vllm", page!("vllm/metrics-idle.prom")),
        ("vllm", page!("vllm/metrics-load.prom")),
        ("vllm", page!("vllm/metrics-load-dp2.prom")),
        ("sglang", page!("sglang/docs-production-metrics.prom")),
        ("sglang", page!("sglang/v0.5.10-after-one-request.prom")),
        ("llamacpp", page!("llamacpp/metrics-load.prom")),
        ("tgi", page!("tgi/datadog-payload.prom")),
    ] {
        row("read", page, || assert!(engine(name).read_load(black_box(page.1)).is_ok()));
    }
    let slots = page!("llamacpp/slots-load.json");
    let llamacpp = engine("llamacpp");
    row("capacity", slots, || assert!(llamacpp.read_capacity(black_box(slots.1)).is_ok()));
    let header = page!("vllm/orca-load-text.txt");
    row("orca", header, || assert!(orca(black_box(header.1)).is_ok()));
    let answer = page!("llamacpp/chat.json");
    row("usage", answer, || assert!(usage(black_box(answer.1)).is_some()));
    let page = page!("vllm/metrics-load.prom");
    let answers = Answers { metrics: Some(page.1), ..Answers::default() };
    row("detect", page, || assert_eq!(detect(black_box(&answers)), find("vllm")));
}
