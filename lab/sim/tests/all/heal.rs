//! After any fault is repaired, TTFT soon returns to its earlier value. A gateway returns without
//! knowing its replicas' cached prefixes and speeds; the gateways that served its replicas
//! meanwhile send it both.
//!
//! `./x test chaos` shows the same on real processes by the wall clock, where it can be reported
//! but not asserted.

use std::sync::Arc;

use crate::world::three_regions;
use meridian_base::{Duration, Time, mix};
use meridian_sim::{Fate, Fault, Load, Measure, Report, Scenario, Source, Topology, run};
use meridian_workload::{Poisson, Program, Sessions, open_loop};

const SEEDS: u64 = 10;
/// By then sessions have started and caches are warm.
const CALM: u64 = 30;
const BROKEN: u64 = 60;
const HEALED: u64 = 75;
/// Since the heal, seconds.
const WITHIN: u64 = 2;
/// Requests sent within this time determine TTFT.
const LOOK: u64 = 10;
const END: u64 = 105;
/// The median counts as recovered when it is at most this many times the earlier one: sessions
/// continue and are not identical.
const AS_BEFORE: f64 = 1.1;
/// Some moved sessions have one more slow turn.
const TAIL: f64 = 2.0;
/// More sessions are moved while a gateway is suspended: clients and other gateways take seconds
/// longer to notice than for a dead one.
const SUSPENDED: (&str, f64) = ("a gateway, suspended", 2.5);

/// Sessions that start per second, by region. They start regardless of faults, so that the result
/// shows how they are served, and not clients that became synchronised.
const STARTS: [f64; 3] = [0.25, 0.08, 0.08];

/// Sessions in all three regions, most of them in the first; faults with their times, in seconds.
fn broken(seed: u64, faults: &[(f64, Fault)]) -> Report {
    let load = |region| Load {
        region,
        source: Source::Open(Box::new(sessions(seed, region))),
        may_run_in: None,
    };
    let at = |(seconds, fault): &(f64, Fault)| (Time::from_millis((seconds * 1e3) as u64), *fault);
    let report = run(Scenario {
        loads: (0..3).map(load).collect(),
        faults: faults.iter().map(at).collect(),
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

/// TTFT in ms of requests sent from one second to another.
fn ttft(report: &Report, from: u64, to: u64) -> Vec<f64> {
    let sent = |at: Time| at >= Time::from_millis(from * 1000) && at < Time::from_millis(to * 1000);
    let done = report.requests.iter().filter(|r| r.fate == Fate::Done && sent(r.sent));
    done.map(|r| r.ttft.as_secs_f64() * 1e3).collect()
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q) as usize]
}

/// A fault and its repair.
fn lost(fault: &[Fault], mend: &[Fault]) -> Vec<(f64, Fault)> {
    let at = |seconds: u64, faults: &[Fault]| -> Vec<(f64, Fault)> {
        faults.iter().map(|fault| (seconds as f64, *fault)).collect()
    };
    [at(BROKEN, fault), at(HEALED, mend)].concat()
}

/// When a rolling restart starts: a process every four seconds.
const ROLLS: u64 = 40;

/// Gateways and replicas go down and come back one after the other, the last one at the heal.
fn rolling() -> Vec<(f64, Fault)> {
    let processes = [
        (Fault::GatewaysDown(0), Fault::GatewaysUp(0)),
        (Fault::GatewaysDown(1), Fault::GatewaysUp(1)),
        (Fault::GatewaysDown(2), Fault::GatewaysUp(2)),
    ];
    let replicas = (0..6).map(|at| (Fault::ReplicaDown(at), Fault::ReplicaUp(at)));
    let all: Vec<(Fault, Fault)> = processes.into_iter().chain(replicas).collect();
    let each = (HEALED - ROLLS) as f64 / all.len() as f64;
    let one = |(at, (down, up)): (usize, (Fault, Fault))| {
        let from = ROLLS as f64 + each * at as f64;
        [(from, down), (from + each, up)]
    };
    all.into_iter().enumerate().flat_map(one).collect()
}

/// Every kind of fault that is healed.
fn kinds() -> Vec<(&'static str, Vec<(f64, Fault)>)> {
    let both = |a, b| [Fault::LinkDown(a, b), Fault::LinkDown(b, a)];
    let up = |a, b| [Fault::LinkUp(a, b), Fault::LinkUp(b, a)];
    let slow = |ms| {
        let by = Duration::from_millis(ms);
        [Fault::LinkSlow(0, 1, by), Fault::LinkSlow(1, 0, by)]
    };
    vec![
        ("a replica", lost(&[Fault::ReplicaDown(0)], &[Fault::ReplicaUp(0)])),
        ("a replica, suspended", lost(&[Fault::ReplicaStopped(0)], &[Fault::ReplicaContinued(0)])),
        ("a link", lost(&both(0, 1), &up(0, 1))),
        ("one way of a link", lost(&[Fault::LinkDown(0, 1)], &[Fault::LinkUp(0, 1)])),
        ("a link, 400 ms slower", lost(&slow(400), &slow(0))),
        ("a gateway", lost(&[Fault::GatewaysDown(0)], &[Fault::GatewaysUp(0)])),
        (SUSPENDED.0, lost(&[Fault::GatewaysStopped(0)], &[Fault::GatewaysContinued(0)])),
        ("a region", lost(&[Fault::RegionDown(0)], &[Fault::RegionUp(0)])),
        ("the control plane", lost(&[Fault::ControlDown], &[Fault::ControlUp])),
        (
            "the control plane and a gateway",
            lost(
                &[Fault::ControlDown, Fault::GatewaysDown(0)],
                &[Fault::ControlUp, Fault::GatewaysUp(0)],
            ),
        ),
        ("everything, one after the other", rolling()),
        ("nothing: gateways are reloaded", lost(&[], &[0, 1, 2].map(Fault::Reload))),
    ]
}

// A part is lost for 15 s, or restarted. This many seconds after it is back, the median TTFT is the
// same as before, and the tail is near its earlier value, over ten seeds. While the part was lost,
// both were worse: otherwise there would be nothing to recover from.
#[test]
fn ttft_recovers_within_seconds_of_a_heal() {
    let mut worst: f64 = 0.0;
    let mut late = Vec::new();
    for (what, faults) in kinds() {
        let reports: Vec<_> = (0..SEEDS).map(|seed| broken(seed, &faults)).collect();
        let over = |from, to| -> Vec<f64> {
            reports.iter().flat_map(|report| ttft(report, from, to)).collect()
        };
        let back = HEALED + WITHIN;
        let from = faults.iter().map(|(at, _)| *at as u64).min().unwrap_or(BROKEN).min(BROKEN);
        let tail = if what == SUSPENDED.0 { SUSPENDED.1 } else { TAIL };
        for (name, q, most) in [("p50", 0.5, AS_BEFORE), ("p90", 0.9, tail)] {
            let before = quantile(&mut over(CALM, from), q);
            let during = quantile(&mut over(from, HEALED), q);
            let after = quantile(&mut over(back, back + LOOK), q);
            println!(
                "{what}: TTFT {name} {before:.0} ms, {during:.0} while it was lost, {after:.0} from \
                 {WITHIN} s after the heal"
            );
            worst = worst.max(during / before);
            if after > before * most {
                late.push(format!("{what}: {name} {before:.0} ms before, {after:.0} after"));
            }
        }
    }
    assert_eq!(late, Vec::<String>::new());
    assert!(worst > 1.4, "no fault hurt: {worst}");
}

// A request at a suspended replica does not wait for it to resume: clients see a pause of seconds,
// and not the forty seconds of the suspension.
#[test]
fn no_request_waits_for_what_is_suspended() {
    for (fault, mend) in [
        (Fault::ReplicaStopped(0), Fault::ReplicaContinued(0)),
        (Fault::GatewaysStopped(0), Fault::GatewaysContinued(0)),
    ] {
        let report = broken(1, &[(BROKEN as f64, fault), (BROKEN as f64 + 40.0, mend)]);
        let sent = |at: Time| at >= Time::from_millis(BROKEN * 1000);
        let slow = report.requests.iter().filter(|r| sent(r.sent) && r.fate == Fate::Done);
        let worst = slow.map(|r| r.ttft).max().expect("requests are answered");
        assert!(worst < Duration::from_secs(15), "{fault:?}: {worst:?}");
    }
}
