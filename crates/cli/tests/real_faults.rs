//! The chaos suite's short form, and the clocks that it sets.

mod common;

use std::process::Command;

use common::{LIMIT, fleet, must};
use meridian_lab::{Program, clocks};

// Something of everything goes wrong under load, and every request ends once, nothing without a
// byte is lost, nothing stays in flight, and all books agree: the command says so by its status.
#[test]
fn a_fleet_survives_something_of_everything() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    let output = command.args(["chaos", "--short"]).output().expect("the binary runs");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("again: meridian chaos brief --seed 1"), "{out}");
    assert!(out.contains("agrees") && !out.contains("DIFFERS"), "{out}");
}

// What makes no sense is refused, with the names of what there is.
#[test]
fn an_unknown_scenario_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    let output = command.args(["chaos", "flood"]).output().expect("the binary runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("flood: use one of replicas, "), "{err}");
}

// A program whose clock is set reads that time, and another one beside it does not: the scenario
// `clocks` sets something.
#[tokio::test]
async fn a_program_sees_the_clock_that_is_set_for_it() {
    let mut fleet = fleet();
    fleet.fake_clocks(&must(clocks::library()));
    must(fleet.set_clock("ahead", 86_400));
    let mut seconds = Vec::new();
    for name in ["ahead", "beside"] {
        let mut date = must(fleet.start(Program::new(name, "date").args(["+%s"])).await);
        must(date.wait(LIMIT).await);
        let said = std::fs::read_to_string(date.log()).expect("there is a log");
        seconds.push(said.trim().parse::<i64>().expect("date prints a number"));
    }
    let ahead = seconds[0] - seconds[1];
    assert!((86_000..87_000).contains(&ahead), "{ahead} s");
}
