//! `meridian up`, as a user runs it.

mod common;

use std::process::{Command, Output};

use common::llamacpp_home;

fn up(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.arg("up").args(args).arg("--llamacpp-home").arg(llamacpp_home());
    command.output().unwrap()
}

fn ends_well(args: &[&str]) {
    let output = up(args);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "up {args:?}: {}\n{out}\n{err}", output.status);
    assert!(out.contains("every request ended well, and all counts agree"), "{out}");
    assert!(!out.contains("DIFFER"), "{out}");
    // A run in which nothing was asked proves nothing.
    let row = out.lines().find(|line| line.contains("requests done")).unwrap();
    let client: u64 = row.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(client > 0, "{out}");
}

// A region of model engines under load ends by itself, with every request well and the three
// counts equal.
#[test]
fn model_engines_end_well_and_counts_agree() {
    ends_well(&["--for", "5s", "--time-scale", "4"]);
}

// The same with real llama.cpp servers, which it sets up itself.
#[test]
fn llamacpp_servers_end_well_and_counts_agree() {
    ends_well(&["--for", "5s", "--engine", "llamacpp", "--replicas", "3"]);
}

// What makes no sense is refused with the name of the setting.
#[test]
fn senseless_settings_are_refused() {
    let output = up(&["--replicas", "0", "--for", "1s"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("--replicas 0: use 1 to 64"), "{err}");
}
