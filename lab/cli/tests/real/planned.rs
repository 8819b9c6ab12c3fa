//! `meridian up --plan`, as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn meridian(args: &[&str]) -> Output {
    Command::new(crate::programs::MERIDIAN).args(args).output().expect("the binary runs")
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A plan of two cells by hand: a pair on each of two servers.
const PLAN: &str = "\
version: 1
topology: two-h100
model: llama-3.1-8b
prompt: {mean: 600, cv: 0.3}
output: {mean: 40, cv: 0.3}
slo: {ttft: 1s, tpot: 50ms, attainment: 0.9}
goodput: 4
cells:
- goodput: 2
  instances:
  - {phase: prefill, tp: 2, pp: 2, stages: [[h100-0/0, h100-0/1], [h100-1/0, h100-1/1]]}
  - {phase: decode, tp: 2, pp: 1, stages: [[h100-0/2, h100-0/3]]}
- goodput: 2
  instances:
  - {phase: prefill, tp: 1, pp: 1, stages: [[h100-0/4]]}
  - {phase: decode, tp: 2, pp: 1, stages: [[h100-0/6, h100-1/6]]}
";

fn written(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The cells of the first line that begins with this.
fn row<'a>(out: &'a str, name: &str) -> Vec<&'a str> {
    let line = out.lines().find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("no row of {name}: {out}")).split_whitespace().collect()
}

// A plan of several instances of several GPUs in two cells starts behind a gateway, and is loaded. All
// counts agree, every answer had both legs, KV crossed between the instances, and each figure has its
// prediction. In a further run an instance is killed: the load goes on, and every request is accounted
// for.
#[test]
fn a_plan_starts_and_survives_an_instance() {
    let plan = written("started-plan.yaml", PLAN);
    let plan = plan.to_str().unwrap();
    let args = ["up", "--plan", plan, "--topology", "two-h100", "--rate", "3", "--for", "4s"];
    let output = meridian(&[&args[..], &["--time-scale", "2", "--kill", "prefill-1"]].concat());
    let (out, err) = said(&output);
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("all counts agree, and no request is missing"), "{out}");
    assert!(!out.contains("DIFFER"), "{out}");
    for figure in ["TTFT, mean", "TTFT, 90 % below", "TPOT, mean", "goodput, requests/s"] {
        let cells = row(&out, figure);
        assert!(cells.iter().all(|cell| *cell != "NaN"), "{cells:?}: {out}");
    }
    assert!(out.contains("CPU at most"), "{out}");
    let split = out.lines().find(|line| line.ends_with("answers had both legs")).unwrap();
    let split: Vec<&str> = split.split_whitespace().collect();
    assert!(split[0] == split[2] && split[0] != "0", "{out}");
    let crossed: u64 = ["prefill-0", "prefill-1"]
        .iter()
        .flat_map(|from| ["decode-0", "decode-1"].map(|to| format!("{from} to {to}")))
        .map(|pair| row(&out, &pair)[3].parse::<u64>().unwrap())
        .sum();
    assert_eq!(crossed.to_string(), split[0], "{out}");
    let killed = row(&out, "prefill-1 was killed");
    let before = |word: &str| -> u64 {
        let at = killed.iter().position(|cell| *cell == word);
        let at = at.unwrap_or_else(|| panic!("no {word}: {killed:?}"));
        killed[at - 1].parse().unwrap()
    };
    assert!(before("requests") > 0, "{out}");
    assert_eq!(before("requests"), before("answered,") + before("lost"), "{out}");
}

// What can't be started is refused before a process starts, each with field, value and remedy.
#[test]
fn plans_that_cannot_start_are_refused() {
    let plan = written("refused-plan.yaml", PLAN);
    let plan = plan.to_str().unwrap();
    let odd = written("odd-plan.yaml", "version: 1\ncells: []\n");
    let odd = odd.to_str().unwrap();
    let up = |plan, topology, more: &[&str]| {
        let args = ["up", "--plan", plan, "--topology", topology, "--for", "1s"];
        let output = meridian(&[&args[..], more].concat());
        assert!(!output.status.success(), "{topology} {more:?}");
        said(&output).1
    };
    let cases: [(&str, &str, &[&str], &str); 8] = [
        ("nowhere.yaml", "two-h100", &[], "cannot read nowhere.yaml"),
        (odd, "two-h100", &[], "give a file that `meridian plan --out` wrote"),
        (plan, "heroserve-testbed", &[], "h100-0/0; the topology has no such GPU"),
        (plan, "two-h200", &[], "use a file, or two-h100"),
        (plan, "two-h100", &["--kill", "prefill-7"], "--kill: prefill-7; use prefill-"),
        (plan, "two-h100", &["--rate", "0"], "--rate: 0; use requests a second above 0"),
        (plan, "two-h100", &["--share", "-1"], "--share: -1; use a share of the goodput"),
        (plan, "two-h100", &["--time-scale", "0"], "--time-scale: 0; use above 0"),
    ];
    for (plan, topology, more, part) in cases {
        let error = up(plan, topology, more);
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = up(plan, "two-h100", &["--regions", "us"]);
    assert!(error.contains("cannot be used with"), "{error}");
}
