//! Tables and figures of a file, over values that are given here.

use super::*;
use crate::experiment::Findings;
use crate::experiment::spec::read;

const YAML: &str = "
title: t
reproduces: r
quantities:
  - {name: growth_ms, digits: 1, of: ttft_ms.p50, at: busy, minus: idle}
  - {name: usd, digits: 2}
tables:
  - title: '{fleet}: published beside ours'
    each_fleet: true
    labels: [{name: workload, head: load}, {name: system}]
    columns:
      - {metric: ttft_ms.p50, head: published, show: published}
      - {metric: ttft_ms.p50, head: ours}
      - {metric: ttft_ms.p50, head: within, show: within}
      - {metric: growth_ms}
      - {metric: usd, head: saved, saves_over: a}
published_tables:
  - fleet: f
    columns: [ttft_ms.p50]
    rows: {busy: {a: [100], b: [160]}, idle: {a: [50], b: [70]}}
published:
  - {what: 'b over a, {workload}', source: s, metric: ttft_ms.p50, of: [b], over: [a], each: true}
  - {what: growth, source: s, metric: growth_ms, of: [b], minus: [a], workloads: [busy], each: true}
  - {what: saved, source: s, metric: usd, of: [b], saves_over: [a], value: 0.5, within: 0.1}
  - {what: bound, source: s, metric: usd, of: [a], value: {at_most: 1}}
";

fn found() -> Findings {
    let spec: Spec = read("test", YAML).unwrap();
    let p50 = |system, workload, seeds| Row::new(system, workload, "f").with("ttft_ms.p50", seeds);
    let rows = vec![
        p50("a", "idle", [50.0, 50.0]),
        p50("b", "idle", [50.0, 50.0]),
        p50("a", "busy", [110.0, 90.0]).with("usd", [2.0]),
        p50("b", "busy", [150.0, 150.0]).with("usd", [1.0]),
    ];
    Findings::of(&spec, Values { rows }).unwrap()
}

// A row has the published value, our mean with its interval, a derived quantity where it is, and
// what is saved in comparison with another system.
#[test]
fn rows_are_beside_published_ones() {
    let table = &found().tables[0];
    assert_eq!(table.title, "f: published beside ours");
    let header = ["load", "system", "published", "ours", "within", "growth_ms", "saved"];
    assert_eq!(table.header, header);
    assert_eq!(table.rows[0], ["idle", "a", "50", "50", "yes", "-", "-"]);
    let busy = ["busy", "a", "100", "100 (90-110)", "yes", "50.0 (40.0-60.0)", "0.0 %"];
    assert_eq!(table.rows[2], busy);
    assert_eq!(table.rows[3], ["busy", "b", "160", "150", "no", "100.0", "50.0 %"]);
}

// A figure without a value of its own is computed from the published table, once for each workload;
// the others have their values, a tolerance or a bound.
#[test]
fn figures_come_from_published_tables() {
    let claims = found().claims;
    let shown: Vec<_> = claims
        .iter()
        .map(|one| [one.what.clone(), one.published.clone(), one.ours.clone(), one.verdict()])
        .collect();
    let expected = [
        ["b over a, idle", "1.40x", "1.00x", "differs"],
        ["b over a, busy", "1.60x", "1.52x", "agrees"],
        ["growth", "+40.0", "+50.0", "agrees"],
        ["saved", "50.0 %", "50.0 %", "agrees"],
        ["bound", "at most 1.00", "2.00", "differs"],
    ];
    assert_eq!(shown, expected.map(|row| row.map(str::to_owned)));
}

// llm-cache-router's published tables are complete: five points of four strategies for both models
// and the local run. The slopes of its README follow from them, and so does what it says of the local
// run: 1.2 to 1.3 times the hits of the others, and less than half of their P95.
#[test]
fn the_published_tables_are_whole() {
    let entry = crate::experiment::find("llm-cache-router").expect("it is in the registry");
    let published = Values::published(&read(entry.name, entry.yaml).unwrap());
    assert_eq!(published.rows.len(), 44);
    let value = |system, workload, fleet, quantity| {
        published.at(system, workload, fleet).expect("a row").known(quantity)[0]
    };
    let growth = |fleet, system| value(system, "sessions-24", fleet, "growth_ms");
    assert_eq!(growth("qwen2.5-7b", "prefix_aware"), 16.0);
    assert_eq!(growth("qwen2.5-14b", "prefix_aware"), 25.0);
    assert_eq!(growth("qwen2.5-14b", "random"), 98.0);
    for other in ["round_robin", "random", "least_outstanding"] {
        let ratio = |quantity| {
            let of = |system| value(system, "sessions-6", "llama.cpp", quantity);
            of("prefix_aware-8") / of(other)
        };
        assert!((1.2..1.31).contains(&ratio("prefix_hit_ratio")), "{other}");
        assert!((0.44..0.47).contains(&ratio("ttft_ms.p95")), "{other}");
    }
}

// Rows come workload by workload, and each fleet still has one table with all its rows.
#[test]
fn each_fleet_has_one_table() {
    let spec: Spec = read("test", YAML).unwrap();
    let row = |workload, fleet| Row::new("a", workload, fleet).with("ttft_ms.p50", [50.0]);
    let places = [("idle", "f"), ("idle", "g"), ("busy", "f"), ("busy", "g")];
    let rows = places.map(|(workload, fleet)| row(workload, fleet)).to_vec();
    let tables = Findings::of(&spec, Values { rows }).unwrap().tables;
    let shown: Vec<_> = tables.iter().map(|one| (one.title.as_str(), one.rows.len())).collect();
    assert_eq!(shown, [("g: published beside ours", 2), ("f: published beside ours", 2)]);
}
