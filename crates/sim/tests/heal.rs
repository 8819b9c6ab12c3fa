//! After a heal TTFT is soon what it was, whatever was lost. A gateway comes back without knowing which
//! replica has which prefix and how fast it is; those that served its replicas meanwhile tell it.
//!
//! `./x test chaos` shows the same on real processes by the wall clock, where it can be told and not
//! asserted.

mod world;

use std::sync::Arc;

use meridian_base::{Duration, Time, mix};
use meridian_sim::{Fate, Fault, Load, Measure, Report, Scenario, Source, Topology, run};
use meridian_workload::{Poisson, Program, Sessions, open_loop};
use world::three_regions;

const SEEDS: u64 = 10;
/// Sessions have begun and caches are warm.
const CALM: u64 = 30;
const BROKEN: u64 = 60;
const HEALED: u64 = 75;
/// Since the heal, seconds.
const WITHIN: u64 = 2;
/// What is sent within this time tells how TTFT is.
const LOOK: u64 = 10;
const END: u64 = 105;
/// The median is what it was when it is at most this many times that: sessions go on and are not
/// the same.
const AS_BEFORE: f64 = 1.1;
/// Some sessions that were moved have one slow turn more.
const TAIL: f64 = 2.0;

/// Sessions that begin in a second, region by region. They begin whatever is lost, so that what is
/// seen is how they are served, and not clients that fell into step.
const STARTS: [f64; 3] = [0.25, 0.08, 0.08];

/// Sessions in all three regions, most of them in the first; a fault and its mending.
fn broken(seed: u64, [fault, mend]: [&[Fault]; 2]) -> Report {
    let load = |region| Load {
        region,
        source: Source::Open(Box::new(sessions(seed, region))),
        may_run_in: None,
    };
    let at = |seconds, faults: &[Fault]| -> Vec<(Time, Fault)> {
        faults.iter().map(|fault| (Time::from_millis(seconds * 1000), *fault)).collect()
    };
    let report = run(Scenario {
        loads: (0..3).map(load).collect(),
        faults: [at(BROKEN, fault), at(HEALED, mend)].concat(),
        measure: Measure { warmup: Duration::ZERO, window: Duration::from_secs(END) },
        ..three_regions(seed, Topology::TwoLayer, "meridian", 2)
    });
    let report = report.expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    report
}

/// Their contexts grow to 6,000 tokens, so that a turn without its prefix is seconds late.
fn sessions(seed: u64, region: usize) -> impl Iterator<Item = (Time, Program)> + Send {
    let generator = Sessions { question_bytes: 2_000, max_tokens: 60, ..Sessions::default() };
    let arrivals = Poisson::new(mix(seed, region as u64), STARTS[region]);
    open_loop(Arc::new(generator), arrivals, seed, region as u32)
}

/// TTFT in ms of what was sent from one second to another.
fn ttft(report: &Report, from: u64, to: u64) -> Vec<f64> {
    let sent = |at: Time| at >= Time::from_millis(from * 1000) && at < Time::from_millis(to * 1000);
    let done = report.requests.iter().filter(|r| r.fate == Fate::Done && sent(r.sent));
    done.map(|r| r.ttft.as_secs_f64() * 1e3).collect()
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q) as usize]
}

// A replica, a link, a gateway or a region is lost for 15 s. So many seconds after it is back, the
// median TTFT is what it was before, and the tail is near it, over ten seeds; and while it was
// lost they were not, or there would be nothing to recover from.
#[test]
fn ttft_recovers_within_seconds_of_a_heal() {
    let both = |a, b| [Fault::LinkDown(a, b), Fault::LinkDown(b, a)];
    let up = |a, b| [Fault::LinkUp(a, b), Fault::LinkUp(b, a)];
    let cases: &[(&str, [&[Fault]; 2])] = &[
        ("a replica", [&[Fault::ReplicaDown(0)], &[Fault::ReplicaUp(0)]]),
        ("a link", [&both(0, 1), &up(0, 1)]),
        ("one way", [&[Fault::LinkDown(0, 1)], &[Fault::LinkUp(0, 1)]]),
        ("a gateway", [&[Fault::GatewaysDown(0)], &[Fault::GatewaysUp(0)]]),
        ("a region", [&[Fault::RegionDown(0)], &[Fault::RegionUp(0)]]),
    ];
    let mut worst: f64 = 0.0;
    for (what, faults) in cases {
        let reports: Vec<_> = (0..SEEDS).map(|seed| broken(seed, *faults)).collect();
        let over = |from, to| -> Vec<f64> {
            reports.iter().flat_map(|report| ttft(report, from, to)).collect()
        };
        let back = HEALED + WITHIN;
        for (name, q, most) in [("p50", 0.5, AS_BEFORE), ("p90", 0.9, TAIL)] {
            let before = quantile(&mut over(CALM, BROKEN), q);
            let during = quantile(&mut over(BROKEN, HEALED), q);
            let after = quantile(&mut over(back, back + LOOK), q);
            println!(
                "{what}: TTFT {name} {before:.0} ms, {during:.0} while it was lost, {after:.0} from \
                 {WITHIN} s after the heal"
            );
            worst = worst.max(during / before);
            assert!(after <= before * most, "{what}: {name}");
        }
    }
    assert!(worst > 1.4, "no fault hurt: {worst}");
}
