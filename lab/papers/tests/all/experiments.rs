//! A small run of each quick experiment, and what holds for all.

use meridian_papers::experiment::{self, ALL};

use crate::goldens::{HEAVY, are_as_before, golden, quick};

// Every experiment runs, breaks no invariant, loses no request without an outage, and reproduces its
// recorded tables. Those that take long do so in the program `heavy`.
#[test]
fn tables_are_as_before() {
    are_as_before(false);
}

// Every experiment is in one of both programs.
#[test]
fn slow_experiments_are_there() {
    for name in HEAVY {
        assert!(experiment::find(name).is_some(), "{name} is not an experiment; remove it");
    }
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
