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

// Every golden table can notice a change: at most half of its rows are zeros.
#[test]
fn golden_tables_are_not_of_zeros() {
    for file in std::fs::read_dir(golden()).expect("the folder is there").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a text file");
        for table in text.split("\n**").skip(1) {
            let rows: Vec<&str> = table.lines().filter(|l| l.starts_with('|')).skip(2).collect();
            let zero = rows.iter().filter(|row| is_zero(row)).count();
            let title = table.lines().next().unwrap_or_default();
            assert!(
                2 * zero <= rows.len(),
                "{}: {title}: {zero} of {} rows are zero; give `quick` a load that they differ under",
                file.file_name().display(),
                rows.len()
            );
        }
    }
}

/// Whether all numbers after the first column are zero; of a row with differences, those count.
fn is_zero(row: &str) -> bool {
    let words = row.split('|').skip(2).filter_map(|cell| cell.split_whitespace().next());
    let numbers: Vec<(f64, bool)> =
        words.filter_map(|w| Some((w.parse().ok()?, w.starts_with(['+', '-'])))).collect();
    let differences = numbers.iter().any(|(_, signed)| *signed);
    let mut judged = numbers.iter().filter(|(_, signed)| *signed || !differences).peekable();
    judged.peek().is_some() && judged.all(|(number, _)| *number == 0.0)
}

// The row of zeros is known as such, a row of counts beside them is not.
#[test]
fn zeros_are_known() {
    assert!(is_zero("| a | 13 | +0.0 (+0.0 to +0.0) | no difference |"));
    assert!(is_zero("| a | b | 0 | 0.00 | - |"));
    assert!(!is_zero("| a | 0 | 0.00 | 3 |"));
    assert!(!is_zero("| a | - | word |"));
}

// The page of experiments has a line for each.
#[test]
fn every_experiment_is_on_the_page() {
    let page = include_str!("../../../../lab/docs/experiments.md");
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
