use super::super::measured::Measured;
use super::super::overload::Overload;
use super::super::tests::{made, question};
use super::*;
use meridian_tools::load::Quantiles;

/// Factors of the seeds: noise that all fleets share.
const NOISE: [f64; 5] = [0.8, 1.3, 1.0, 0.9, 1.1];

/// A row of L4 whose TTFT is noisy, in the same way for every row.
fn row(policy: &str, gpus: u32, [p90, mean]: [f64; 2], met: f64) -> Row {
    let of = |times: f64| Quantiles {
        mean: mean * times,
        p50: mean,
        p90: p90 * times,
        p95: p90,
        p99: p90,
    };
    let run = |times: &f64| Measured { ttft_ms: Some(of(*times)), met, ..Measured::default() };
    Row {
        policy: policy.to_owned(),
        arrangement: "whole".to_owned(),
        replicas: gpus,
        gpus,
        fleet: format!("{gpus} l4"),
        met,
        ttft_ms: Some(of(1.0)),
        gpu_usd_per_hour: Some(f64::from(gpus)),
        runs: NOISE.iter().map(run).collect(),
        ..Row::default()
    }
}

fn overloaded(row: Row, demand: f64) -> Row {
    Row { overloaded: Some(Overload { demand: Some(demand), why: String::new() }), ..row }
}

fn asked(seeds: u32) -> Question {
    Question { seeds, ..question(made("sessions", 8.0), 60) }
}

fn said(rows: &[Row]) -> String {
    let seeds = rows[0].runs.len() as u32;
    let answer =
        Answer { rows: rows.to_vec(), least: vec![], requests: 0.0, seconds: 0.0, notes: vec![] };
    sentence(&asked(seeds), &answer)
}

// A smaller fleet that surely answers sooner than a larger one is the sentence.
#[test]
fn a_smaller_fleet_that_is_sooner() {
    let (one, two) = (row("a", 1, [100.0, 50.0], 0.97), row("b", 2, [300.0, 120.0], 0.96));
    assert_eq!(
        said(&[one.clone(), two.clone()]),
        "One L4 under a answers sooner than two under b: TTFT 100 ms in P90 and 50 ms in the mean, against \
         300 ms and 120 ms; 97.0 ±0.0 % within the SLO, against 96.0 ±0.0 %."
    );
    let rows = vec![one.clone(), two.clone()];
    let answer = Answer { rows, least: vec![], requests: 0.0, seconds: 0.0, notes: vec![] };
    let prices = prices(&asked(5), &answer);
    assert_eq!(prices.as_deref(), Some("One L4 costs 1.00 USD an hour, two cost 2.00."));
    let says = said(&[one.clone(), overloaded(two.clone(), 1.2)]);
    assert!(says.contains("than two under b (overloaded 1.20x): "), "{says}");
    // An answer that begins sooner and takes too long is no gain, nor is a fleet that may lose.
    for other in [Row { met: 0.5, ..one.clone() }, overloaded(one, 1.1)] {
        assert!(!said(&[other, two.clone()]).contains("sooner"));
    }
}

// The same difference between the means is no order if the seeds disagree, or if there are too few.
#[test]
fn a_difference_within_the_interval_is_level() {
    let (mut one, two) = (row("a", 1, [100.0, 50.0], 0.97), row("b", 2, [110.0, 60.0], 0.97));
    assert!(said(&[one.clone(), two.clone()]).contains("sooner"));
    for (run, times) in one.runs.iter_mut().zip([2.0, 0.2, 1.7, 0.5, 0.6]) {
        let ttft = run.ttft_ms.as_mut().unwrap();
        (ttft.p90, ttft.mean) = (100.0 * times, 50.0 * times);
    }
    assert!(!said(&[one.clone(), two.clone()]).contains("sooner"));
    let other = Row { gpus: 1, ..two.clone() };
    assert_eq!(
        said(&[one, other.clone()]),
        "One L4 has a P90 TTFT of 100 ms to 110 ms under a and b (level)."
    );
    let few = |row: &Row| Row { runs: row.runs[..1].to_vec(), ..row.clone() };
    let slow = Row { policy: "c".to_owned(), ..few(&row("c", 1, [900.0, 500.0], 0.5)) };
    assert_eq!(
        said(&[few(&other), slow]),
        "One L4 has a P90 TTFT of 110 ms to 900 ms under b and c (in no sure order)."
    );
}

// Policies on one fleet: a sure order is said, and an overloaded policy is named with its excess and
// is never the best, however soon its few answers come.
#[test]
fn overloaded_policies_are_named() {
    let rows = [
        row("a", 1, [100.0, 50.0], 0.9),
        row("b", 1, [300.0, 90.0], 0.9),
        row("c", 1, [9.0, 5.0], 0.4),
    ];
    let [a, b, c] = rows;
    let c = overloaded(c, 1.22);
    assert_eq!(
        said(&[a.clone(), b.clone(), c.clone()]),
        "One L4 has a P90 TTFT of 100 ms under a, and of 300 ms under b; not enough under c (overloaded \
         1.22x)."
    );
    let level = Row { policy: "b".to_owned(), ..a.clone() };
    assert_eq!(
        said(&[a.clone(), level, c.clone()]),
        "One L4 has a P90 TTFT of 100 ms under a and b (level); not enough under c \
         (overloaded 1.22x)."
    );
    assert_eq!(
        said(&[overloaded(b, 12.4), c]),
        "Every fleet is overloaded under every policy, even one L4 under b (overloaded 12x) and c \
         (overloaded 1.22x): use more replicas, or less load."
    );
}

// The least fleet says how near the next smaller one comes, and none how near the largest does.
#[test]
fn the_least_fleet_has_its_next() {
    let least = |policy: &str, found: Found, nearest: Option<Row>| Least {
        policy: policy.to_owned(),
        arrangement: "whole".to_owned(),
        found,
        nearest: nearest.map(Box::new),
    };
    let fleet = |policy, gpus| Found::Fleet(Box::new(row(policy, gpus, [1.0, 1.0], 0.96)));
    let missed = |gpus, met| row("", gpus, [1.0, 1.0], met);
    let all = vec![
        least("a", fleet("a", 7), Some(missed(6, 0.931))),
        least("b", fleet("b", 2), Some(overloaded(missed(1, 0.0), 1.3))),
        least("c", fleet("c", 1), None),
        least("d", Found::NoneUpTo(64), Some(missed(64, 0.9))),
    ];
    let answer = Answer { rows: vec![], least: all, requests: 0.0, seconds: 0.0, notes: vec![] };
    let wanted = ": 7 l4 under a (96.00 ±0.00 % at 7.00 USD/h; 6 l4: 93.10 ±0.00 %), 2 l4 under b \
                  (96.00 ±0.00 % at 2.00 USD/h; 1 l4: overloaded 1.30x), 1 l4 under c (96.00 ±0.00 % at 1.00 \
                  USD/h), none of up to 64 replicas under d (64 l4: 90.00 ±0.00 %).";
    let says = super::least(&asked(5), &answer);
    assert!(says.ends_with(wanted), "{says}");
}

// Times have the unit that suits them.
#[test]
fn times_have_units() {
    assert_eq!([time(812.4), time(1234.0), time(12_345.0)], ["812 ms", "1.23 s", "12.3 s"]);
}
