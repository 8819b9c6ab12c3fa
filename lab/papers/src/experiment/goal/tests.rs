use meridian_sim::{Fate, Record, Report, Scenario};
use meridian_tools::table::Table;

use super::*;
use crate::experiment;
use crate::experiment::claim::Claim;
use crate::experiment::shard::Runs;
use crate::experiment::spec::{Spec, read};
use crate::experiment::tests::record;

/// Four cells, told apart by their number of replicas.
const YAML: &str = "
title: t
reproduces: r
regions: one
levels: [0.5]
fleets:
  - {name: f1, groups: [{gpu: l4, model: llama-3.1-8b, count: [1]}]}
  - {name: f2, groups: [{gpu: l4, model: llama-3.1-8b, count: [2]}]}
  - {name: f3, groups: [{gpu: l4, model: llama-3.1-8b, count: [3]}]}
  - {name: f4, groups: [{gpu: l4, model: llama-3.1-8b, count: [4]}]}
workloads:
  - {name: dominated, loads: [{generator: rag, capacity: 4, share: [1]}], fleets: [f1], half: judging}
  - {name: best, loads: [{generator: rag, capacity: 4, share: [1]}], fleets: [f2], half: tuning}
  - {name: even, loads: [{generator: rag, capacity: 4, share: [1]}], fleets: [f3], half: tuning}
  - {name: behind, loads: [{generator: rag, rate: [4]}], fleets: [f4], half: judging}
systems: [meridian@two_layer, dynamo_kv-tuned@flat, skywalker@two_layer]
";

/// Twenty requests. SkyWalker is the fastest and loses one; Dynamo's rule takes, relative to ours
/// and by cell: 5 % less of everything; 10 % more; 10 % more or less, by seed; 20 % less of TTFT
/// with the same throughput.
fn stand_in(scenario: Scenario) -> anyhow::Result<Report> {
    let policy = scenario.system.policy.name;
    let even = if scenario.seed.is_multiple_of(2) { 1.1 } else { 1.0 / 1.1 };
    let (ttft, rest) = match (policy, scenario.replicas.len()) {
        ("dynamo_kv", 1) => (0.95, 0.95),
        ("dynamo_kv", 2) => (1.1, 1.1),
        ("dynamo_kv", 3) => (even, even),
        ("dynamo_kv", 4) => (0.8, 1.0),
        ("skywalker", _) => (0.1, 0.1),
        _ => (1.0, 1.0),
    };
    let fate = |i| if policy == "skywalker" && i == 0 { Fate::Lost } else { Fate::Done };
    let ms = |ms: f64| ms.round() as u64;
    let answered =
        |i: u64| Record { fate: fate(i), ..record(i, ms(1000.0 * ttft), ms(9000.0 * rest)) };
    Ok(Report {
        requests: (0..20).map(answered).collect(),
        done_in_window: ms(1000.0 / rest),
        window: scenario.measure.window,
        ..Report::default()
    })
}

/// An experiment with the tables of the goal.
fn with_duels(yaml: &str) -> Spec {
    let entry = experiment::find("goal").expect("it is in the registry");
    let file: Spec = read(entry.name, entry.yaml).unwrap();
    Spec { duels: file.duels, ..read("test", yaml).unwrap() }
}

fn cell<'a>(table: &'a Table, row: [&str; 2], column: &str) -> &'a str {
    let at = table.header.iter().position(|h| h == column).expect(column);
    &table.rows.iter().find(|r| r[..2] == row).expect(row[0])[at]
}

// One cell of each kind is counted as such: dominated by the system named, best, level, and behind
// without being dominated. A system that leaves requests unanswered is no rival.
#[test]
fn cells_are_counted_by_kind() {
    let spec = with_duels(YAML);
    let context = Context {
        spec,
        seeds: 4,
        quick: false,
        commit: None,
        servers: None,
        runs: &Runs::whole(),
        simulate: &stand_in,
        progress: &|_, _, _| (),
    };
    let found = run(&context).unwrap();
    let [summary, _, all, dominated, cells, metrics] = &found.tables[..] else { panic!("tables") };
    assert_eq!(all.rows[0][..5], ["4", "1", "1", "1", "2"]);
    assert_eq!(cell(summary, ["50 %", "tuning"], "best"), "1");
    assert_eq!(cell(summary, ["50 %", "judging"], "behind"), "1");
    assert_eq!(cell(summary, ["-", "judging"], "behind"), "1");

    assert_eq!(dominated.rows.len(), 1);
    assert_eq!(dominated.rows[0][..3], ["dominated at 50 %", "f1", "dynamo_kv-tuned@flat"]);
    assert_eq!(dominated.rows[0][3], "0.950");
    let result = |name, load| cell(cells, [name, load], "result");
    let expected =
        [("dominated", "50 %", "behind"), ("best", "50 %", "best"), ("even", "50 %", "level")];
    for (name, load, expected) in expected {
        assert_eq!(result(name, load), expected, "{name}");
    }
    assert_eq!(result("behind", "-"), "behind");
    assert_eq!(cell(cells, ["best", "50 %"], "score"), "1.100");
    assert_eq!(cell(cells, ["best", "50 %"], "system"), "dynamo_kv-tuned@flat");
    assert_eq!(cell(cells, ["behind", "-"], "dominated by"), "-");
    // 0.8 of both TTFTs, 1 of the rest: 0.8 to the power of a half.
    assert_eq!(cell(cells, ["behind", "-"], "score"), "0.894");

    assert_eq!(metrics.rows[1][..2], ["dominated at 50 %", "f1"]);
    assert_eq!(metrics.rows[1][3..6], ["ttft_ms.mean", "1000", "950"]);
    let verdicts: Vec<_> = found.claims.iter().map(Claim::verdict).collect();
    assert_eq!(verdicts, ["agrees in 3, differs in 1", "agrees in 2, differs in 2"]);
    assert_eq!(found.figures.len(), 4);
    assert!(found.figures[0].svg.contains("dynamo_kv") && !found.figures[0].svg.contains("skyw"));
}

// Without ours nothing runs. Without a rival that answers a cell is left out, and the title says so.
#[test]
fn cells_without_a_rival_are_left_out() {
    let only = |names: &str| {
        let all = "[meridian@two_layer, dynamo_kv-tuned@flat, skywalker@two_layer]";
        let spec = with_duels(&YAML.replace(all, names));
        let context = Context {
            spec,
            seeds: 1,
            quick: false,
            commit: None,
            servers: None,
            runs: &Runs::whole(),
            simulate: &stand_in,
            progress: &|_, _, _| (),
        };
        run(&context).map(|found| found.tables[0].title.clone()).map_err(|e| format!("{e:#}"))
    };
    let error = only("[dynamo_kv-tuned@flat]").unwrap_err();
    assert_eq!(error, "systems: `meridian@two_layer` is missing; name it");
    let title = only("[meridian@two_layer, skywalker@two_layer]").unwrap();
    assert!(title.ends_with("; 4 cells have no rival that answers and are left out"), "{title}");
}

// The complete file is valid: 24 workloads at three levels, of both halves, with ours and 50
// rivals; each kind has a workload of either half.
#[test]
fn the_file_is_fine() {
    let entry = experiment::find("goal").expect("it is in the registry");
    let mut spec: Spec = read(entry.name, entry.yaml).unwrap();
    spec.systems = named(&spec.systems);
    let plan = Plan::new(&spec, false).unwrap();
    duels::check(spec.duels.as_ref().unwrap(), &plan).unwrap();
    assert_eq!((plan.workloads.len(), plan.systems.len()), (72, 51));
    let bases: Vec<&str> = plan.workloads.iter().map(|w| w.0.base()).collect();
    for kind in bases.iter().filter_map(|base| base.strip_suffix("-tuning")) {
        assert!(bases.contains(&&*format!("{kind}-judging")), "{kind}");
    }
    assert!(!Plan::new(&spec, true).unwrap().cells().is_empty());
}
