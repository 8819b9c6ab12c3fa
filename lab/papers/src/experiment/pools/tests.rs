//! The counts of the comparison, with a stand-in for the simulator.

use meridian_routing::Role;
use meridian_sim::{Report, Scenario};
use meridian_tools::table::Table;

use super::*;
use crate::experiment::shard::Runs;
use crate::experiment::spec::{Spec, read};
use crate::experiment::tests::record;

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
  - {name: w, loads: [{generator: rag, rate: [4]}]}
systems:
  - {name: ours, policy: meridian, topology: two_layer}
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

fn run(code: fn(&Context<'_>) -> anyhow::Result<Findings>) -> Findings {
    let spec: Spec = read("test", YAML).unwrap();
    let context = Context {
        spec,
        seeds: 2,
        quick: false,
        commit: None,
        servers: None,
        runs: &Runs::whole(),
        simulate: &stand_in,
        progress: &|_, _, _| (),
    };
    code(&context).unwrap()
}

fn rows(table: &Table, columns: usize) -> Vec<Vec<&str>> {
    table.rows.iter().map(|row| row[..columns].iter().map(String::as_str).collect()).collect()
}

// The first table compares with no pools by the ratio of roles, the worst first; the next ones name
// the rule that is better, and where it is so on everything.
#[test]
fn losses_come_first() {
    let found = run(pairs);
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
    let found = run(break_even);
    assert!(found.tables[0].rows.is_empty(), "{:?}", found.tables[0]);
    assert_eq!(rows(&found.tables[1], 2), [["w", "1P+2D 25G"]]);
}

// Without ours in front of pools there is nothing to compare.
#[test]
fn ours_is_needed() {
    let spec: Spec = read("test", &YAML.replace("policy: meridian", "policy: random")).unwrap();
    let (simulate, progress) = (&stand_in as &_, &|_: usize, _: usize, _: &str| ());
    let runs = &Runs::whole();
    let context = Context {
        spec,
        seeds: 1,
        quick: false,
        commit: None,
        servers: None,
        runs,
        simulate,
        progress,
    };
    for code in [pairs, break_even] {
        let error = code(&context).unwrap_err().to_string();
        assert!(error.starts_with("systems: "), "{error}");
    }
}
