use super::super::cases::CASES;
use super::*;

fn all_cases() -> Vec<&'static Case> {
    CASES.iter().collect()
}

fn sample(p50_us: f64, rps: f64, cpu_us: f64) -> Sample {
    Sample { p50_us, rps, cpu_us, errors: 0 }
}

fn race(meridian: f64) -> Race {
    let names = ["direct", "nginx", "smg", "meridian"];
    let mut race = Race::new(names.into_iter().map(|n| (n, "1".to_owned())), &all_cases());
    for case in &CASES {
        // Each round is slower than the last, which does not affect ratios within a round.
        for drift in [1.0, 2.0, 3.0] {
            let mut add = |name, added: f64| {
                let (p50, rps) = ((100.0 + added) * drift, 1e6 / (100.0 + added) / drift);
                race.add(name, case, sample(p50, rps, added * drift));
            };
            add("direct", 0.0);
            add("nginx", 50.0);
            add("smg", 400.0);
            add("meridian", meridian);
        }
    }
    race.memory("meridian", Some((10_000_000, 20_000_000)));
    race
}

fn missed(race: &Race) -> usize {
    race.targets().iter().filter(|(_, _, _, met)| !met).count()
}

// A fast gateway meets every target except the one that allows almost no overhead; a slow one
// misses all speed targets. A drift of the machine changes neither.
#[test]
fn targets_follow_the_ratios() {
    let fast = race(40.0);
    let all = fast.targets();
    assert_eq!(all.len(), 9);
    assert_eq!(missed(&fast), 1, "{all:?}");
    let ratios = all.iter().filter(|t| t.0.starts_with("CPU") || t.0.starts_with("requests"));
    assert!(ratios.clone().all(|t| t.1.max - t.1.min < 1e-9));
    assert_eq!(ratios.count(), 5);
    assert_eq!(missed(&race(4.0)), 0);
    assert_eq!(missed(&race(1000.0)), 8);
}

// With an earlier build in the race there is one more target for each case, and a build that costs a
// tenth more than the earlier one misses those about its cost.
#[test]
fn an_earlier_build_is_compared_with() {
    let beside = |before: f64| {
        let mut race = race(44.0);
        for case in &CASES {
            for drift in [1.0, 2.0, 3.0] {
                let cost = before * drift;
                race.add("before", case, sample((100.0 + before) * drift, 1e6 / cost, cost));
            }
        }
        let targets = race.targets().into_iter().filter(|t| t.0.ends_with("before's"));
        targets.map(|t| (t.0, t.3)).collect::<Vec<_>>()
    };
    let same = beside(44.0);
    assert!(same.len() == CASES.len() && same.iter().all(|(_, met)| *met), "{same:?}");
    for (name, met) in beside(40.0) {
        assert_eq!(met, name.starts_with("p50, "), "{name}");
    }
}

// With pools, systems that speak the same protocol are compared with each other.
#[test]
fn pools_are_compared_by_protocol() {
    let names = ["direct", "smg", "meridian-sglang"];
    let mut race = Race::new(names.into_iter().map(|n| (n, "1".to_owned())), &all_cases());
    for (name, added) in names.into_iter().zip([0.0, 400.0, 100.0]) {
        for case in &CASES {
            race.add(name, case, sample(100.0 + added, 1e6 / (100.0 + added), added));
        }
    }
    let met: Vec<bool> = race.targets().into_iter().map(|target| target.3).collect();
    assert_eq!(met, [true; 3]);
}

// A peer that adds less than the noise counts as adding a microsecond, not a negative time.
#[test]
fn nothing_is_faster_than_direct() {
    let mut race = race(40.0);
    for samples in race.samples.iter_mut().filter(|(key, _)| key.0 == "nginx") {
        samples.1.iter_mut().for_each(|s| s.p50_us = 90.0);
    }
    let added = race.added("sse_c1", ["meridian", "nginx", "direct"]).expect("all were measured");
    assert_eq!((added.median, added.min), (80.0, 40.0));
}

// Medians and ranges.
#[test]
fn spreads() {
    assert_eq!(Spread::of(vec![]), None);
    assert_eq!(
        Spread::of(vec![3.0, 1.0, 2.0]).map(|s| (s.median, s.min, s.max)),
        Some((2.0, 1.0, 3.0))
    );
    assert_eq!(Spread::of(vec![4.0, 1.0]).map(|s| s.median), Some(2.5));
}

// The file has a row for every number of the table, and the table shows which target is missed.
#[test]
fn the_file_and_the_table() {
    let race = race(1000.0);
    let json = race.json();
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(json["bench"], "gateway");
    assert_eq!(rows.len(), 4 * (CASES.len() * 3 + 1) + 2 + 9);
    assert!(rows.iter().all(|r| r["name"].is_string() && r["value"].is_number()));
    assert_eq!(race.render().matches("MISSED").count(), 8);
}

// The tables have the raced cases only: of one connection the latency, of many the rate.
#[test]
fn tables_have_the_raced_cases() {
    let some: Vec<_> = CASES.iter().filter(|c| ["sse_c1", "200_c512"].contains(&c.name)).collect();
    let mut race = Race::new([("meridian", "1".to_owned())].into_iter(), &some);
    race.add("meridian", some[0], sample(300.0, 3000.0, 70.0));
    race.add("meridian", some[1], sample(9000.0, 700.0, 80.5));
    let text = race.render();
    for part in ["c=1, p50 us", "300 (300-300)", "c=512, requests/s", "700 (700-700)", "80.5"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("c=32") && !text.contains("3000"), "{text}");
    assert!(text.contains("SSE 200 tokens"), "{text}");
}
