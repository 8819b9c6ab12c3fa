//! Many replicas under one gateway.

use std::sync::Arc;

use meridian_base::{Duration, Time};
use meridian_sim::{Fate, Load, Measure, Scenario, Source, Topology, run};
use meridian_workload::{Poisson, Sessions, open_loop};

use crate::world::three_regions;

/// A world in which each gateway has `3 * each` replicas, small ones without a load.
fn flat(each: usize) -> Scenario {
    let mut flat = three_regions(1, Topology::Flat, "meridian", each);
    for replica in &mut flat.replicas {
        replica.engine = replica.engine.with_kv_blocks(1_024);
    }
    Scenario { paranoid: false, ..flat }
}

// A gateway has more replicas than the 1,024 that a live gateway's configuration allows by default,
// and uses those with the highest ids too.
#[test]
fn a_gateway_has_thousands() {
    let sessions = Sessions { question_bytes: 200, max_tokens: 5, ..Sessions::default() };
    let source = open_loop(Arc::new(sessions), Poisson::new(1, 200.0), 1, 0);
    let report = run(Scenario {
        loads: vec![Load { region: 0, source: Source::Open(Box::new(source)), may_run_in: None }],
        measure: Measure { warmup: Duration::ZERO, window: Duration::from_secs(8) },
        ..flat(400)
    });
    let report = report.expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    let sent = report.requests.iter().filter(|r| r.sent < Time::from_millis(8_000));
    assert!(sent.clone().count() > 1_000 && sent.clone().all(|r| r.fate == Fate::Done));
}

// More replicas than there are ids are refused with both numbers and the remedy.
#[test]
fn more_than_ids_are_refused() {
    assert_eq!(flat(21_845).replicas.len(), 65_535);
    let error = run(flat(21_846)).expect_err("is impossible").to_string();
    assert_eq!(error, "a gateway numbers 65535 replicas, and there are 65538: use fewer");
}
