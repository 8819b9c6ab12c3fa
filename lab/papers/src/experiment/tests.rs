//! Tests of the path from a file to the written results, with a stub in place of the simulator.

use meridian_base::{Duration, Time};
use meridian_sim::{Fate, Record, Report, Sample, Scenario, Source};

use super::*;

pub(super) const YAML: &str = "
title: Two policies
reproduces: nothing
regions: skywalker
fleets:
  - {name: small, groups: [{gpu: l4, model: llama-3.1-8b, count: [1, 0, 1]}]}
workloads:
  - {name: trees, loads: [{generator: tree2, clients: [2, 0, 1]}]}
  - {name: open, loads: [{generator: sessions, rate: [4, 0, 0]}]}
systems:
  - {name: slow, policy: round_robin, topology: {central: eu}}
  - {name: fast, policy: meridian, topology: two_layer}
seeds: 3
measure: {warmup: 10s, window: 60s}
plots:
  - {kind: bars, metric: throughput_rps}
  - {kind: boxes, metric: ttft_ms, log: true}
  - {kind: cdf, metric: e2e_ms}
  - {kind: replicas, metric: ttft_ms.p90}
  - {kind: timeline, metric: kv_used}
published:
  - {what: fast is faster, source: S1, metric: ttft_ms.mean, of: [fast], over: [slow], value: 0.5}
  - {what: slow is faster, source: S1, metric: ttft_ms.mean, of: [slow], over: [fast], value: 0.5}
notes: |
  The second figure differs, since the stand-in makes it so.
";

/// The `i`th request, answered after this many milliseconds.
pub(super) fn record(i: u64, ttft: u64, e2e: u64) -> Record {
    let [sent, ttft, e2e] = [i * 1000, ttft, e2e].map(Duration::from_millis);
    Record {
        prompt_tokens: 100,
        cached_tokens: 50,
        matched_tokens: 50,
        reply_tokens: 64,
        session: i,
        ..Record::answered(Time::ZERO + sent, ttft, e2e)
    }
}

/// Ten requests; those of the system called fast take half as long.
pub(super) fn stand_in(scenario: Scenario) -> anyhow::Result<Report> {
    let scale = if scenario.system.name == "fast" { 1 } else { 2 };
    let answered = |i: u64| record(i, scale * (100 + 10 * i + scenario.seed), scale * 2000);
    let sample = |i: u64| Sample {
        at: Time::from_millis(i * 1000),
        replica: (i % 2) as u32,
        running: 1,
        outstanding: 1 + (i % 2) as u32,
        kv_used: 0.5,
    };
    Ok(Report {
        requests: (0..10).map(answered).collect(),
        done_in_window: 10,
        tokens_in_window: 640,
        window: scenario.measure.window,
        samples: (0..10).map(sample).collect(),
        replica_seconds: scenario.replicas.len() as f64 * scenario.measure.window.as_secs_f64(),
        ..Report::default()
    })
}

pub(super) static ENTRY: Entry = Entry { name: "test", yaml: YAML, code: cells::run, live: None };

fn outcome(options: Options) -> anyhow::Result<Outcome> {
    run(&ENTRY, options, &stand_in, &|_, _, _| ())
}

// A file becomes rows, tables, figures and verdicts, the same every time: a row per cell with the
// published form's fields, a verdict per figure, a plot per group.
#[test]
fn a_file_becomes_findings() {
    let outcome = outcome(Options::default()).unwrap();
    let found = &outcome.findings;
    assert_eq!((outcome.seeds, found.rows.len(), found.tables.len()), (3, 4, 2));
    let row = &found.rows[1];
    for (field, expected) in [
        ("system", "fast"),
        ("workload", "trees"),
        ("topology", "two_layer"),
        ("admission", "pending_kv"),
    ] {
        assert_eq!(row[field], expected, "{field}");
    }
    assert_eq!(row["ttft_ms"]["mean"], 147.0);
    assert!((row["usd_per_hour"].as_f64().unwrap() - 0.76).abs() < 1e-9);
    assert_eq!(found.rows[0]["admission"], "blind");
    let verdicts: Vec<_> = found.claims.iter().map(Claim::verdict).collect();
    assert_eq!(verdicts, ["agrees", "differs"]);
    assert_eq!((&*found.claims[0].published, &*found.claims[0].ours), ("0.50x", "0.50x"));
    let names: Vec<_> = found.figures.iter().map(|f| f.name.as_str()).collect();
    assert!(names.contains(&"ttft-ms-boxes-trees-small"), "{names:?}");
    assert!(names.contains(&"kv-used-timeline-open-small-fast"), "{names:?}");
    let again = super::tests::outcome(Options::default()).unwrap().findings;
    assert_eq!((&again.figures, &again.rows), (&found.figures, &found.rows));
}

// Closed loops have their clients in the file's regions, open ones their rate.
#[test]
fn scenarios_are_what_the_file_says() {
    let seen = |scenario: &Scenario| {
        let loads = scenario.loads.iter().map(|load| match &load.source {
            Source::Closed { clients, .. } => (load.region, *clients),
            Source::Open(_) => (load.region, 0),
        });
        loads.collect::<Vec<_>>()
    };
    let check = |mut scenario: Scenario| {
        let expected = if scenario.loads.len() == 2 { vec![(0, 2), (2, 1)] } else { vec![(0, 0)] };
        assert_eq!(seen(&scenario), expected);
        assert_eq!(scenario.replicas.iter().map(|r| r.region).collect::<Vec<_>>(), [0, 2]);
        for load in &mut scenario.loads {
            // 4 requests a second in sessions of 8 turns: 100 of them take about 200 s.
            if let Source::Open(programs) = &mut load.source {
                let last = programs.nth(99).expect("arrivals do not end").0.as_secs_f64();
                assert!((last - 200.0).abs() < 60.0, "{last}");
            }
        }
        stand_in(scenario)
    };
    run(&ENTRY, Options::default(), &check, &|_, _, _| ()).unwrap();
}

// Seeds and the small variant are options; an impossible request gives an error.
#[test]
fn options_are_kept() {
    let seeds = |options| outcome(options).map(|o| o.seeds).map_err(|e| format!("{e:#}"));
    assert_eq!(seeds(Options { seeds: Some(2), ..Options::default() }), Ok(2));
    assert_eq!(seeds(Options { quick: true, ..Options::default() }), Ok(1));
    for wrong in [0, u32::MAX] {
        let said = seeds(Options { seeds: Some(wrong), ..Options::default() }).unwrap_err();
        assert!(said.contains("is out of range; use 1 to 10000"), "{said}");
    }
    let file = seeds(Options { file: Some("no/such.yaml".into()), ..Options::default() });
    assert!(file.clone().unwrap_err().starts_with("--file no/such.yaml"), "{file:?}");
    let live = seeds(Options { live: true, ..Options::default() }).unwrap_err();
    assert!(live.contains("leave it out"), "{live}");
}

// An invalid path for the results is found before the runs, whose results would be lost.
#[test]
fn no_folder() {
    let out = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml/results").into());
    let options = Options { out, ..Options::default() };
    let error = run(&ENTRY, options, &|_| panic!("it runs"), &|_, _, _| ()).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.starts_with("--out") && error.contains("Cargo.toml/results"), "{error}");
}

// The written results: the page links every existing plot, and the file for programs reads back in
// the published form.
#[test]
fn results_are_written_down() {
    let outcome = outcome(Options::default()).unwrap();
    let dir = std::env::temp_dir().join(format!("meridian-experiment-{}", std::process::id()));
    outcome.write(&dir).unwrap();
    let page = std::fs::read_to_string(dir.join("report.md")).unwrap();
    for figure in &outcome.findings.figures {
        assert!(page.contains(&format!("({}.svg)", figure.name)), "{}", figure.name);
        assert!(dir.join(format!("{}.svg", figure.name)).exists());
    }
    assert!(page.contains("| fast is faster | 0.50x | 0.50x | agrees | S1 |"), "{page}");
    assert!(page.contains("since the stand-in makes it so"));
    let text = std::fs::read_to_string(dir.join("results.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&file["experiment"], &file["seeds"]), (&"test".into(), &3.into()));
    assert_eq!(file["rows"].as_array().map(Vec::len), Some(4));
    let csv = std::fs::read_to_string(dir.join("results.csv")).unwrap();
    assert!(csv.starts_with("system,policy,workload,fleet,topology,admission,"), "{csv}");
    assert!(csv.lines().count() == 5 && csv.contains(",intervals.ttft_ms.mean.low,"), "{csv}");
    assert_eq!(file["params"].as_str().map(str::len), Some(16));
    std::fs::remove_dir_all(&dir).unwrap();
}

// The report includes the command to repeat the run with all options, the measured part of each run
// if a workload has its own window, and the unit of each column.
#[test]
fn a_report_repeats() {
    let dir = std::env::temp_dir().join(format!("meridian repeats {}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("own.yaml");
    let own = "rate: [4, 0, 0]}], measure: {warmup: 3s, window: 30s}}";
    std::fs::write(&file, YAML.replace("rate: [4, 0, 0]}]}", own)).unwrap();
    let options = Options { seeds: Some(2), file: Some(file.clone()), ..Options::default() };
    let outcome = outcome(options).unwrap();
    let command = format!("meridian experiment test --seeds 2 --file '{}'", file.display());
    let (page, text) = (outcome.markdown(), outcome.text());
    assert!(page.contains(&format!("`{command}`")) && text.contains(&command), "{page}\n{text}");
    let windows = "of trees 60 s of a run count, after 10 s of warm-up, of open 30 s of a run count, after 3 s of warm-up";
    assert!(page.contains(windows), "{page}");
    for said in [&page, &text] {
        assert!(said.contains("ttft_ms.p90: P90 time to first token, ms"), "{said}");
        assert!(said.contains("throughput_rps: requests answered a second"), "{said}");
        assert!(!said.to_lowercase().contains("overloaded"), "{said}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

// An overloaded system is named, with its numbers: if its queues grow, and if it refuses requests.
#[test]
fn overload_is_said() {
    let short = |scenario: Scenario| {
        let is_slow = scenario.system.name == "slow";
        let mut report = stand_in(scenario)?;
        let more = report.requests.clone();
        (0..3).for_each(|_| report.requests.extend(more.clone()));
        report.done_in_window = 40;
        match is_slow {
            true => report.done_in_window = 25,
            false => report.requests[0].fate = Fate::Rejected,
        }
        Ok(report)
    };
    let outcome = run(&ENTRY, Options::default(), &short, &|_, _, _| ()).unwrap();
    for said in [outcome.markdown(), outcome.text()] {
        let grew = "slow, trees on small: its queues grew by 15 of 40 requests within the window";
        assert!(said.contains(grew), "{said}");
        let refused = "fast, trees on small: 1 of 40 requests per run were refused or broken";
        assert!(said.contains(refused), "{said}");
    }
}

// The settings of hard workloads reach the simulator: a replica that is degraded for the whole run
// makes its answers slower, and bursts make the answers of a loaded replica wait longer.
#[test]
fn hard_settings_cost_time() {
    let yaml = "
title: t
reproduces: r
regions: one
fleets:
  - {name: whole, groups: [{gpu: l4, model: llama-3.1-8b, count: [2]}]}
  - name: degraded
    groups: [{gpu: l4, model: llama-3.1-8b, count: [2]}]
    degraded: [{replica: 1, factor: 4, at: 0s, until: 500s}]
workloads:
  - {name: even, loads: [{generator: single, capacity: 6, share: [1]}]}
  - name: bursts
    loads: [{generator: single, capacity: 6, share: [1], bursts: {times: 10, length: 10s, every: 60s}}]
    fleets: [whole]
systems:
  - {name: s, policy: round_robin, admission: blind, topology: flat}
measure: {warmup: 0s, window: 120s}
";
    let entry = Entry { name: "test", yaml, code: cells::run, live: None };
    let options = Options { seeds: Some(1), ..Options::default() };
    let found = run(&entry, options, &runner::simulate, &|_, _, _| ()).unwrap().findings;
    let e2e = |row: &Value| row["e2e_ms"]["mean"].as_f64().unwrap();
    let [even, degraded, bursts] = [0, 1, 2].map(|row| e2e(&found.rows[row]));
    assert!(degraded > 1.5 * even, "{degraded} ms degraded, {even} ms whole");
    assert!(bursts > 1.2 * even, "{bursts} ms in bursts, {even} ms even");
}
