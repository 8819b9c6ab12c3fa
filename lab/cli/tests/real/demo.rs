//! `meridian demo`, as a user runs it.

use std::process::{Command, Output};

fn demo(args: &[&str]) -> Output {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.arg("demo").args(args).output().expect("the binary runs")
}

/// The rows of a fleet in the blocks and in the summary.
fn rows<'a>(out: &'a str, fleet: &str) -> Vec<Vec<&'a str>> {
    let figures = |line: &'a str| {
        let (_, figures) = line.split_once(fleet)?;
        figures.starts_with("  ").then(|| figures.split_whitespace().collect::<Vec<_>>())
    };
    out.lines().filter_map(figures).filter(|row| !row.is_empty()).collect()
}

// Both fleets answer under the same load, a replica is killed in both by itself, and no request of ours
// is lost. The simulated part comes first. No line is longer than 80 columns, and the last ones can be
// pasted: they have the command that repeats the run.
#[test]
fn a_short_demo_shows_both_fleets() {
    let output = demo(&["--for", "12s", "--seed", "3"]);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
    }
    let place = |part: &str| out.find(part).unwrap_or_else(|| panic!("{part}: {out}"));
    let simulated = [place("meridian what-if mooncake"), place("round robin, each region alone")];
    assert!(simulated.iter().all(|at| *at < place("see it live")), "{out}");
    let kill = place("killed us-engine-2 in both fleets");
    assert!(kill < place("Meridian: 0 of ") && kill < place("Repeat it with:"), "{out}");
    assert!(out.contains("Repeat it with: meridian demo --seed 3 --for 12s"), "{out}");
    assert!(out.contains("clients and gateways agree on their number"), "{out}");
    for fleet in ["Meridian", "round robin per region"] {
        let all = rows(&out, fleet);
        // Answers and lost requests are the first columns of the summary, the last of these rows.
        let last = all.last().unwrap_or_else(|| panic!("{fleet}: {out}"));
        assert!(last[0].parse::<u64>().is_ok_and(|answers| answers > 0), "{fleet}: {out}");
        assert!(fleet != "Meridian" || last[1] == "0", "requests are lost: {out}");
    }
}

// A run that is too short for a kill is refused before anything is simulated or started.
#[test]
fn a_run_too_short_for_a_kill_is_refused() {
    let output = demo(&["--for", "3s"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(
        err.contains("--for 3s: a replica is killed after half of it; use 10s or more"),
        "{err}"
    );
}
