//! A small run of an experiment, compared with its recorded tables.
//!
//! `REWRITE=1 ./x test unit heavy` updates the files; read the diff before you commit it. A change of
//! numbers means that the engine model, a workload, a policy or the simulator behaves differently.

// Each test program uses its part of this file.
#![allow(dead_code)]

use std::path::PathBuf;
use std::time::Instant;

use meridian_papers::experiment::{self, ALL, Entry, Options, Outcome, runner};
use meridian_tools::table::Table;

/// Experiments whose small run takes seconds to minutes, nine tenths of the time of all. They run in the
/// program `heavy`, the others in `all`.
pub(crate) const HEAVY: &[&str] = &[
    "calibration",
    "heroserve-fig10",
    "heroserve-fig8",
    "mfs-ablation",
    "mfs-fig10",
    "mfs-fig11",
    "mfs-fig12",
    "mfs-fig13",
    "mfs-fig14",
    "planner-measured",
];

/// Compares the experiments of one program with their files.
///
/// # Panics
/// With the tables of those that changed.
pub(crate) fn are_as_before(heavy: bool) {
    let chosen: Vec<_> = ALL.iter().filter(|one| HEAVY.contains(&one.name) == heavy).collect();
    let changed = meridian_tools::parallel(chosen.len(), |at| differs(chosen[at]));
    let changed: Vec<String> = changed.into_iter().flatten().collect();
    let how = "run it with REWRITE=1 and read the difference";
    assert!(changed.is_empty(), "changed ({how}):\n{}", changed.join("\n"));
}

pub(crate) fn quick(entry: &Entry) -> Outcome {
    let options = Options { quick: true, seeds: Some(1), ..Options::default() };
    let outcome = experiment::run(entry, options, &runner::simulate, &|_, _, _| ());
    outcome.unwrap_or_else(|error| panic!("{}: {error:#}", entry.name))
}

pub(crate) fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/experiments")
}

fn shown(outcome: &Outcome) -> String {
    let tables = outcome.findings.tables.iter().map(Table::markdown);
    let params = format!("parameters {}\n", outcome.findings.params);
    std::iter::once(params).chain(tables).collect::<Vec<_>>().join("\n")
}

/// The tables of an experiment that are not as recorded.
fn differs(entry: &Entry) -> Option<String> {
    let start = Instant::now();
    let outcome = quick(entry);
    println!("{:7.1} s  {}", start.elapsed().as_secs_f64(), entry.name);
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
