use std::time::Duration;

use meridian_base::Time;
use meridian_sim::Record;
use meridian_tools::load::Quantiles;

use super::super::rows::Row;
use super::super::settle::settle;
use super::super::waiting::Waiting;
use super::*;

fn record(sent_s: u64, waits: Duration) -> Record {
    Record::answered(Time::from_millis(sent_s * 1000), waits, waits)
}

/// A run with one request a second for 400 s after a warm-up of 100 s.
fn run(waits_s: impl Fn(f64) -> f64) -> Measured {
    let waits = |at: u64| Duration::from_secs_f64(waits_s(at as f64));
    let all: Vec<Record> = (0..400).map(|at| record(100 + at, waits(at))).collect();
    let waiting = Waiting::of(&all, Time::from_millis(100_000), Duration::from_secs(400));
    let ttft_ms = Quantiles::of(all.iter().map(|r| r.ttft.as_secs_f64() * 1e3).collect());
    Measured { waiting, ttft_ms, ..Measured::default() }
}

fn slo() -> Slo {
    "ttft=2s".parse().unwrap()
}

fn of(runs: &[Measured]) -> Option<Overload> {
    Overload::of(runs, &slo())
}

// A queue that gets 1.25 times its capacity lets each request wait a quarter of a second longer for
// each second, whether or not it was long at the start. A short wait, one that hardly grows and one
// that falls are not overloads.
#[test]
fn growth_is_the_demand() {
    for start in [0.0, 20.0] {
        let found = of(&[run(|at| start + at / 4.0)]).expect("it grows");
        assert!((found.demand.unwrap() - 1.25).abs() < 1e-3, "{found:?}");
        assert!(found.why.contains("grows, from ") && found.mark() == "overloaded 1.25x");
    }
    assert_eq!(of(&[run(|_| 3.0)]), None);
    assert_eq!(of(&[run(|at| at / 100.0)]), None);
    assert_eq!(of(&[run(|at| (400.0 - at) / 50.0)]), None);
}

// One seed of four with a burst at its end is chance; if all seeds grow it is none.
#[test]
fn growth_is_sure_over_the_seeds() {
    let (grows, falls) = (run(|at| at / 16.0), run(|at| (400.0 - at) / 50.0));
    assert!(of(std::slice::from_ref(&grows)).is_some());
    let mixed = [grows.clone(), grows.clone(), falls.clone(), falls];
    assert_eq!(of(&mixed), None);
    assert!(of(&vec![grows; 4]).is_some());
}

// A queue that is long without growing does not keep up, unless the objective allows the wait.
#[test]
fn a_long_wait_is_an_overload() {
    let steady = [run(|_| 33.0)];
    let found = of(&steady).expect("33 s are too long");
    assert_eq!(found.why, "the mean TTFT of 33.0 s is longer than 10 s");
    assert_eq!((found.mark().as_str(), found.demand), ("overloaded", None));
    assert_eq!(Overload::of(&steady, &"ttft=60s".parse().unwrap()), None);
    assert!(of(&[run(|at| if at < 200.0 { at / 2.0 } else { 1.0 })]).is_some(), "a long burst");
}

// Refusals are an overload of their own, above half a percent: one in five refused is a quarter too
// many.
#[test]
fn refusals_are_seen() {
    let refuses = |refused| of(&[Measured { refused, ..Measured::default() }]);
    assert_eq!(refuses(0.004), None);
    let found = refuses(0.2).expect("it refuses");
    assert_eq!(
        (found.why.as_str(), found.mark().as_str()),
        ("20.0 % of the requests are refused", "overloaded 1.25x")
    );
}

fn row(replicas: u32, overloaded: bool, meets: bool) -> Row {
    let overloaded =
        overloaded.then(|| Overload { demand: Some(1.1), why: "it refuses".to_owned() });
    let fleet = format!("{replicas} h100");
    let arrangement = "whole".to_owned();
    Row {
        policy: "p".to_owned(),
        arrangement,
        replicas,
        fleet,
        overloaded,
        meets,
        ..Row::default()
    }
}

// Whatever the simulation says, no fleet keeps up or meets the objective below one that does not; the
// fleets that seemed to are named.
#[test]
fn rows_are_monotonic() {
    for case in 0..256_u32 {
        let mut rows: Vec<Row> = (0..4)
            .map(|at| {
                let (over, meets) = (case >> at & 1 == 1, case >> (at + 4) & 1 == 1);
                row(at + 1, over, meets && !over)
            })
            .collect();
        let before = rows.clone();
        let said = settle(&mut rows);
        assert!(rows.is_sorted_by_key(|row| row.overloaded.is_none()), "{before:?}");
        assert!(rows.is_sorted_by_key(|row| row.meets), "{before:?}");
        assert_eq!(rows[3], before[3], "the largest fleet is as simulated");
        let changed = before.iter().zip(&rows).filter(|(a, b)| a.meets != b.meets).count();
        assert_eq!(said.len(), changed);
    }
    let mut rows = [row(8, true, false), row(9, false, true), row(10, true, false)];
    let said = settle(&mut rows);
    assert_eq!(
        rows[1].overloaded.as_ref().unwrap().why,
        "it seems to keep up, but 10 h100 does not"
    );
    let wanted =
        "9 h100 under p meets the SLO and 10 h100 does not, so it does not count as enough.";
    assert_eq!(said, [wanted]);
}
