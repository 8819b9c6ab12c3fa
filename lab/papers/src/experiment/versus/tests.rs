use meridian_sim::{Fate, Record, Report, Scenario};
use meridian_tools::table::Table;

use super::*;
use crate::experiment;
use crate::experiment::shard::Runs;
use crate::experiment::spec::{Exception, Spec, read};
use crate::experiment::tests::record;

fn spec() -> Spec {
    let entry = experiment::find("meridian-vs-all").expect("it is in the registry");
    read(entry.name, entry.yaml).unwrap()
}

/// Ten requests: ours take 105 ms, Dynamo's rule 100, the others 200; SkyWalker loses one.
fn stand_in(scenario: Scenario) -> anyhow::Result<Report> {
    let ttft = match scenario.system.policy.name {
        "meridian" => 105,
        "dynamo_kv" => 100,
        "skywalker" => 1,
        _ => 200,
    };
    let lost = scenario.system.policy.name == "skywalker";
    let fate = |i: u64| if lost && i == 0 { Fate::Lost } else { Fate::Done };
    let answered = |i: u64| Record { fate: fate(i), ..record(i, ttft, 2000) };
    Ok(Report {
        requests: (0..10).map(answered).collect(),
        done_in_window: 10,
        window: scenario.measure.window,
        ..Report::default()
    })
}

fn cell<'a>(table: &'a Table, row: &str, column: &str) -> &'a str {
    let at = table.header.iter().position(|h| h == column).expect(column);
    &table.rows.iter().find(|r| r[0] == row).expect(row)[at]
}

// Every policy is included in every topology, each tuned one in the topologies that its line
// applies to, and the whole plan is valid.
#[test]
fn the_field_is_whole() {
    let mut spec = spec();
    spec.systems.extend(field::all());
    let plan = Plan::new(&spec, false).unwrap();
    let count = |suffix: &str, name: &str| {
        let start = format!("{name}{suffix}@");
        plan.systems.iter().filter(|s| s.0.name.starts_with(&start)).count()
    };
    for policy in field::policies() {
        assert_eq!(count("", policy.name), 6, "{}", policy.name);
        let tuned = experiment::catalogue::tuned();
        if policy.name != marks::OURS && tuned.iter().any(|line| line.policy == policy.name) {
            assert_eq!(count("-tuned", policy.name), 6, "{}", policy.name);
        }
    }
}

// Ours is behind Dynamo's rule in TTFT and level elsewhere, so that one is behind on no metric. A
// system that leaves requests unanswered does not compete, however fast. The file's causes appear
// next to the results they cover.
#[test]
fn marks_are_against_who_answers() {
    let mut spec = spec();
    spec.exceptions = vec![Exception {
        cause: "near ties".to_owned(),
        workloads: vec!["tot".to_owned()],
        fleets: Vec::new(),
        metrics: vec!["ttft_ms.p99".to_owned()],
        topologies: Vec::new(),
        rivals: vec!["dynamo_kv".to_owned()],
    }];
    let context = Context {
        spec,
        seeds: 2,
        quick: true,
        commit: None,
        servers: None,
        runs: &Runs::whole(),
        simulate: &stand_in,
        progress: &|_, _, _| (),
    };
    let found = run(&context).unwrap();
    let [summary, singles, by_workload, by_cause, behind] = &found.tables[..5] else {
        panic!("five")
    };
    assert_eq!(cell(summary, "all (ours: two_layer)", "behind"), "8");
    assert_eq!(cell(summary, "all (ours: two_layer)", "surely"), "8");
    assert_eq!(cell(summary, "all (ours: two_layer)", "of"), "18");
    let nearest = |column| cell(singles, "dynamo_kv@two_layer", column);
    assert_eq!(
        ["of", "ours ahead", "within 1 %", "ours behind"].map(nearest),
        ["18", "0", "10", "8"]
    );
    assert!(singles.rows.iter().all(|row| !row[0].starts_with("skywalker@")), "{singles:?}");
    assert_eq!(cell(by_workload, "tot", "ttft_ms.mean"), "1.050");
    assert_eq!(cell(by_workload, "tot", "throughput_rps"), "1.000");
    assert_eq!(cell(by_cause, "near ties", "among all"), "1");
    assert_eq!(cell(by_cause, "not explained", "among all"), "7");
    assert!(behind.rows.iter().all(|row| row[6].starts_with("dynamo_kv@")), "{behind:?}");
    assert!(behind.rows.iter().all(|row| row[7] == "-"), "{behind:?}");
    assert_eq!(found.claims[0].verdict(), "agrees in 10, differs in 8");
}

// An exception about a missing item is an error.
#[test]
fn exceptions_name_what_is_there() {
    let mut spec = spec();
    spec.systems.extend(field::all());
    let plan = Plan::new(&spec, false).unwrap();
    let yaml = "{cause: c, workloads: [tote], metrics: [ttft], topologies: [all]}";
    spec.exceptions = vec![read("test", yaml).unwrap()];
    let error = format!("{:#}", tables::check(&spec, &plan).unwrap_err());
    assert!(error.contains("exceptions[0].workloads: `tote` is unknown; use one of "), "{error}");
    assert!(error.contains("exceptions[0].metrics: `ttft` is unknown"), "{error}");
    assert!(!error.contains("topologies"), "{error}");
}
