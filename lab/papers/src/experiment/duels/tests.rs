//! The counts of the comparisons that files ask for, with a stand-in for the simulator.

use meridian_routing::Role;
use meridian_sim::{Fate, Report, Scenario};

use super::*;
use crate::experiment::shard::Runs;
use crate::experiment::spec::{self, Ref, Smaller, Spec, read};
use crate::experiment::tests::record;
use crate::experiment::{Context, Findings, Simulate, cells, find};

const YAML: &str = "
title: t
reproduces: r
regions: one
fleets:
  - name: 1P+1D 25G
    groups:
      - {gpu: l4, model: llama-3.1-8b, count: [1], pool: {role: prefill, gbps: 25}}
      - {gpu: l4, model: llama-3.1-8b, count: [1], pool: {role: decode, gbps: 25}}
  - name: 1P+2D 25G
    groups:
      - {gpu: l4, model: llama-3.1-8b, count: [1], pool: {role: prefill, gbps: 25}}
      - {gpu: l4, model: llama-3.1-8b, count: [2], pool: {role: decode, gbps: 25}}
workloads:
  - {name: w, loads: [{generator: rag, rate: [4]}], half: judging}
systems:
  - {name: meridian, policy: meridian, topology: two_layer}
  - {name: none, policy: meridian, topology: two_layer, whole: true}
  - {name: rule, policy: least_outstanding, topology: two_layer}
";

/// On the first fleet both others are 5 % better than ours on everything, on the second 10 % worse.
fn stand_in(scenario: Scenario) -> anyhow::Result<Report> {
    let others = if scenario.replicas.len() == 2 { 0.95 } else { 1.1 };
    let whole = scenario.replicas.iter().all(|replica| replica.role == Role::Both);
    let ours = scenario.system.policy.name == "meridian" && !whole;
    let times = if ours { 1.0 } else { others };
    let ms = |ms: f64| (ms * times).round() as u64;
    Ok(Report {
        requests: (0..20).map(|i| record(i, ms(1000.0), ms(9000.0))).collect(),
        done_in_window: (1000.0 / times).round() as u64,
        window: scenario.measure.window,
        ..Report::default()
    })
}

/// The same, but ours loses a tenth of its requests on the second fleet.
fn ours_fails(scenario: Scenario) -> anyhow::Result<Report> {
    let second = scenario.replicas.len() > 2;
    let ours = scenario.system.policy.name == "meridian"
        && scenario.replicas.iter().any(|replica| replica.role != Role::Both);
    let mut report = stand_in(scenario)?;
    let fate = if second && ours { Fate::Lost } else { Fate::Done };
    report.requests.iter_mut().step_by(10).for_each(|request| request.fate = fate);
    Ok(report)
}

/// The tables of an experiment's file, on the systems here.
fn run(name: &str, yaml: &str) -> anyhow::Result<Findings> {
    simulated(name, yaml, &stand_in)
}

fn simulated(name: &str, yaml: &str, simulate: &Simulate) -> anyhow::Result<Findings> {
    let mut spec: Spec = read("test", yaml).unwrap();
    let file: Spec = read(name, find(name).expect("it is in the registry").yaml).unwrap();
    spec.duels = file.duels;
    cells::run(&Context {
        spec,
        seeds: 2,
        quick: false,
        commit: None,
        servers: None,
        runs: &Runs::whole(),
        simulate,
        progress: &|_, _, _| (),
    })
}

fn rows(table: &Table, columns: usize) -> Vec<Vec<&str>> {
    table.rows.iter().map(|row| row[..columns].iter().map(String::as_str).collect()).collect()
}

// The first table compares with no pools by the ratio of roles, the worst first; the next ones name
// the rule that is better, and where it is so on everything.
#[test]
fn losses_come_first() {
    let found = run("pd-pairs", YAML).unwrap();
    let none = [
        ["w", "1P+1D", "none", "1", "1", "0", "0", "1", "0.95"],
        ["w", "1P+2D", "none", "1", "0", "1", "0", "0", "1.10"],
    ];
    assert_eq!(rows(&found.tables[0], 9), none);
    let behind = [["w", "1P+1D 25G", "rule", "0.95"]];
    assert_eq!(rows(&found.tables[1], 4), behind);
    assert_eq!(rows(&found.tables[2], 4), behind);
    let rivals = [["none", "2", "1", "1", "0", "1"], ["rule", "2", "1", "1", "0", "1"]];
    assert_eq!(rows(&found.tables[3], 6), rivals);
    assert_eq!(found.claims.len(), 1);
}

// Of the fleets with the same links, the one with the best ratio counts.
#[test]
fn the_best_ratio_decides_where_pools_pay() {
    let found = run("pd-break-even", YAML).unwrap();
    assert!(found.tables[0].rows.is_empty(), "{:?}", found.tables[0]);
    assert_eq!(rows(&found.tables[1], 2), [["w", "1P+2D 25G"]]);
}

// Where ours loses requests its latencies lack the worst ones, so that fleet is not compared: the other
// one decides, although ours looks better on the second.
#[test]
fn fleets_with_lost_requests_are_left_out() {
    let found = simulated("pd-break-even", YAML, &ours_fails).unwrap();
    assert_eq!(rows(&found.tables[0], 2), [["w", "1P+1D 25G"]]);
    assert!(found.tables[1].rows.is_empty(), "{:?}", found.tables[1]);
}

// Without ours there is nothing to compare.
#[test]
fn ours_is_needed() {
    let yaml = YAML.replace("name: meridian", "name: theirs");
    let error = run("pd-pairs", &yaml).unwrap_err().to_string();
    assert_eq!(error, "systems: `meridian` is missing; name it");
}

// The ends of the interval decide: above 1 is best, below 0.99 is behind, everything between is
// level.
#[test]
fn intervals_decide() {
    let of = |low, high| Standing::of(Mean { mean: (low + high) / 2.0, low, high });
    assert_eq!(of(1.001, 1.2), Standing::Best);
    assert_eq!(of(0.8, 1.2), Standing::Level);
    assert_eq!(of(0.97, 0.995), Standing::Level);
    assert_eq!(of(0.8, 0.985), Standing::Behind);
}

// The complete file of the ablation is valid: every workload has its half, both halves have some, and
// every change is one of the default policy. A workload without a half is named.
#[test]
fn the_ablation_is_fine() {
    let mut spec: Spec = read("test", find("meridian-ablation").unwrap().yaml).unwrap();
    let duels = spec.duels.clone().unwrap();
    let plan = Plan::new(&spec, false).unwrap();
    check(&duels, &plan).unwrap();
    for half in [Half::Tuning, Half::Judging] {
        assert!(plan.workloads.iter().any(|w| w.0.half == Some(half)), "{}", half.name());
    }
    assert!(plan.systems.iter().all(|s| s.1.name == "meridian"));
    spec.regions = Some(Ref::Named("skywalker".to_owned()));
    spec.quick = Smaller::default();
    let workload: spec::Workload =
        read("test", "{name: w, loads: [{generator: tree2, clients: [1, 1, 1]}]}").unwrap();
    spec.workloads = vec![Ref::Own(workload)];
    let error = format!("{:#}", check(&duels, &Plan::new(&spec, false).unwrap()).unwrap_err());
    assert!(error.contains("workloads (w).half: missing; use tuning or judging"), "{error}");
}
