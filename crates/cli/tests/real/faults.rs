//! The chaos suite's short form, a minute of faults by chance, and the clocks that it sets.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::common::{LIMIT, fleet, must};
use meridian_lab::{Program, clocks};

/// A fleet of sixteen processes at a time is enough for a small machine.
static ONE_FLEET: Mutex<()> = Mutex::new(());

/// Plays scenarios, which must keep what they promise: the command says so by its status.
fn chaos(args: &[&str]) -> String {
    let _one = ONE_FLEET.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    let output = command.arg("chaos").args(args).output().expect("the binary runs");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{out}\n{err}");
    out
}

// Something of everything goes wrong under load, and every request ends once, nothing without a
// byte is lost, nothing stays in flight, and all books agree.
#[test]
fn a_fleet_survives_something_of_everything() {
    let out = chaos(&["--short"]);
    assert!(out.contains("again: meridian chaos brief --seed 1"), "{out}");
    assert!(out.contains("agrees") && !out.contains("DIFFERS"), "{out}");
}

// A minute of faults by chance, half of it with resume: no request is lost, no stream ends without
// saying so, no answer is another one's or comes twice, none is given where a rule forbids it, and
// no request is refused for good.
#[test]
fn a_fleet_survives_a_minute_of_chance() {
    let out = chaos(&["random", "--for", "1m"]);
    assert!(out.contains("again: meridian chaos random --for 60s --seed 1"), "{out}");
    let faults =
        out.lines().find_map(|line| line.trim().strip_suffix(" faults; TTFT by the wall clock"));
    let faults: usize = faults.expect("they are counted").parse().expect("is a number");
    assert!(faults >= 10, "{faults} faults\n{out}");
}

// What is suspended is not waited for, and what goes on does no harm.
#[test]
fn a_fleet_survives_suspended_processes() {
    let out = chaos(&["stopped"]);
    assert!(out.contains("no gateway waits for") && !out.contains("DIFFERS"), "{out}");
}

// How long faults come is a setting of one scenario alone, and long enough for one.
#[test]
fn the_length_belongs_to_the_random_scenario() {
    for (args, why) in [
        (&["chaos", "storm", "--for", "1m"][..], "applies to the scenario `random`"),
        (&["chaos", "random", "--for", "5s"], "use 20s or more"),
        (&["chaos", "random", "--for", "60"], "has no unit"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        let output = command.args(args).output().expect("the binary runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && err.contains(why), "{err}");
    }
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
