//! A small run of every experiment, compared with its recorded tables.
//!
//! `REWRITE=1 cargo test -p meridian-papers --test all experiments` updates the files; read the diff
//! before you commit it. A change of numbers means that the engine model, a workload, a policy or
//! the simulator behaves differently.

use std::path::PathBuf;

use meridian_papers::experiment;
use meridian_papers::experiment::ALL;
use meridian_papers::experiment::Entry;
use meridian_papers::experiment::Options;
use meridian_papers::experiment::Outcome;
use meridian_papers::experiment::runner;

fn quick(entry: &Entry) -> Outcome {
    let options = Options { quick: true, seeds: Some(1), ..Options::default() };
    let outcome = experiment::run(entry, options, &runner::simulate, &|_, _, _| ());
    outcome.unwrap_or_else(|error| panic!("{}: {error:#}", entry.name))
}

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/experiments")
}

fn shown(outcome: &Outcome) -> String {
    let tables = outcome.findings.tables.iter().map(meridian_tools::table::Table::markdown);
    let params = format!("parameters {}\n", outcome.findings.params);
    std::iter::once(params).chain(tables).collect::<Vec<_>>().join("\n")
}

// Every experiment runs, breaks no invariant, loses no request without an outage, and reproduces its
// recorded tables.
#[test]
fn tables_are_as_before() {
    let changed = meridian_tools::parallel(ALL.len(), |at| differs(&ALL[at]));
    let changed: Vec<String> = changed.into_iter().flatten().collect();
    let how = "run it with REWRITE=1 and read the difference";
    assert!(changed.is_empty(), "changed ({how}):\n{}", changed.join("\n"));
}

/// The tables of an experiment that are not as recorded.
fn differs(entry: &Entry) -> Option<String> {
    let outcome = quick(entry);
    assert_eq!(outcome.findings.violations, Vec::<String>::new(), "{}", entry.name);
    for row in &outcome.findings.rows {
        let kept = row["lost"].is_null() || row["lost"] == 0 || row["outages"].is_u64();
        assert!(kept, "{}: {row}", entry.name);
    }
    let path = golden().join(format!("{}.txt", entry.name));
    let text = shown(&outcome);
    if std::env::var_os("REWRITE").is_some() {
        std::fs::create_dir_all(golden()).expect("the folder can be made");
        std::fs::write(&path, text).expect("the file can be written");
        return None;
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    (recorded != text).then(|| format!("{}\n{text}", entry.name))
}

// There is no golden file of a removed experiment.
#[test]
fn golden_files_have_their_experiments() {
    for file in std::fs::read_dir(golden()).expect("the folder is there").flatten() {
        let name = file.file_name().to_string_lossy().trim_end_matches(".txt").to_owned();
        assert!(experiment::find(&name).is_some(), "{name} is not an experiment; remove its file");
    }
}

// The page of experiments has a line for each.
#[test]
fn every_experiment_is_on_the_page() {
    let page = include_str!("../../../../docs/experiments.md");
    for entry in ALL {
        assert!(page.contains(&format!("\n| `{}` |", entry.name)), "{} has no line", entry.name);
    }
}

// The same seed gives the same bytes: rows, tables and plots.
#[test]
fn one_seed_one_result() {
    let entry = experiment::find("skywalker-fig4").expect("it is in the registry");
    let (a, b) = (quick(entry).findings, quick(entry).findings);
    assert_eq!((a.rows, a.tables, a.figures), (b.rows, b.tables, b.figures));
}
