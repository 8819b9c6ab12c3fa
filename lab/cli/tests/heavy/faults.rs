//! The chaos suite: its short scenario, a minute each of random faults, faults of pairs, of gateways of
//! one region and of the registry, suspended processes, and the clocks that it sets.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::common::{LIMIT, fleet, must};
use meridian_fleet::{Program, clocks};

/// One fleet at a time, because each has a dozen processes or more, and test machines may be small.
static ONE_FLEET: Mutex<()> = Mutex::new(());

/// Runs scenarios. The exit status shows that every guarantee was kept.
fn chaos(args: &[&str]) -> String {
    let _one = ONE_FLEET.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(crate::programs::MERIDIAN);
    let output = command.arg("chaos").args(args).output().expect("the binary runs");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{out}\n{err}");
    out
}

// Every kind of fault happens under load. Every request ends once, no request without a byte is
// lost, none stays in flight, and all counts agree.
#[test]
fn a_fleet_survives_something_of_everything() {
    let out = chaos(&["--short"]);
    assert!(out.contains("repeat: meridian chaos brief --seed 1"), "{out}");
    assert!(out.contains("agrees") && !out.contains("DIFFERS"), "{out}");
}

// A minute of random faults, half of it with resume: no request is lost, every broken stream has an
// error, no client gets another one's answer or an answer twice, no region answers against a rule,
// and no request is refused permanently.
#[test]
fn a_fleet_survives_a_minute_of_chance() {
    let out = chaos(&["random", "--for", "1m"]);
    assert!(out.contains("repeat: meridian chaos random --for 60s --seed 1"), "{out}");
    let faults =
        out.lines().find_map(|line| line.trim().strip_suffix(" faults; TTFT by the wall clock"));
    let faults: usize = faults.expect("they are counted").parse().expect("is a number");
    assert!(faults >= 10, "{faults} faults\n{out}");
}

// A minute of faults of prefill and decode replicas, each at a moment of a request: no answer is lost
// or wrong, no KV of another prompt arrives, and no engine holds KV afterwards.
#[test]
fn pairs_survive_a_minute_of_faults() {
    let out = chaos(&["pools", "--for", "1m"]);
    assert!(out.contains("repeat: meridian chaos pools --for 60s --seed 1"), "{out}");
    // How many come in a minute depends on the machine.
    for kind in ["killed", "suspended"] {
        assert!(out.contains(kind), "{kind}\n{out}");
    }
    assert!(out.contains("with wrong KV 0") && out.contains("KV held 0.00 %"), "{out}");
}

// A minute of faults of three gateways in each region and of the links between them: no request is lost,
// no answer is wrong, and no gateway counts a request of another one that has ended.
#[test]
fn gateways_of_one_region_survive_a_minute_of_faults() {
    let out = chaos(&["siblings", "--for", "1m"]);
    assert!(out.contains("repeat: meridian chaos siblings --for 60s --seed 1"), "{out}");
    for kind in ["gateway killed", "gateway suspended", "gateway cut off"] {
        assert!(out.contains(kind), "{kind}\n{out}");
    }
}

// Wall clocks of gateways of one region are a minute slow and fast, and gateways restart by these clocks:
// nothing is lost, and all counts agree.
#[test]
fn gateways_of_one_region_need_no_common_clock() {
    let out = chaos(&["sibling-clocks"]);
    assert!(out.contains("-gateway set to -60 s") && !out.contains("DIFFERS"), "{out}");
}

// A minute of faults of three control planes and of etcd, while operators change the registry: no
// request is lost, every acknowledged change is in the registry, all control planes and gateways show
// the same one, and no replica is served by two regions for longer than a lease.
#[test]
fn the_registry_survives_a_minute_of_faults() {
    let out = chaos(&["registry", "--for", "1m"]);
    assert!(out.contains("repeat: meridian chaos registry --for 60s --seed 1"), "{out}");
    for kind in ["etcd member", "control plane", "replica drained", "region's label set"] {
        assert!(out.contains(kind), "{kind}\n{out}");
    }
    assert!(out.contains("in the registry, both serve"), "{out}");
}

// Without etcd the scenario fails, and says how to install it.
#[test]
fn a_missing_etcd_is_named() {
    let _one = ONE_FLEET.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.env("PATH", "/nonexistent").args(["chaos", "registry", "--for", "20s"]);
    let output = command.output().expect("the binary runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("apt-get install etcd-server"), "{err}");
}

// No gateway waits for a suspended process, and a resumed one does no harm.
#[test]
fn a_fleet_survives_suspended_processes() {
    let out = chaos(&["stopped"]);
    assert!(out.contains("no gateway waits for") && !out.contains("DIFFERS"), "{out}");
}

// The length of faults is a setting of one scenario only, and has a minimum.
#[test]
fn the_length_belongs_to_the_random_scenario() {
    for (args, why) in [
        (
            &["chaos", "storm", "--for", "1m"][..],
            "applies to the scenarios `random`, `pools`, `siblings`, `registry`",
        ),
        (&["chaos", "random", "--for", "5s"], "use 20s or more"),
        (&["chaos", "random", "--for", "60"], "has no unit"),
    ] {
        let mut command = Command::new(crate::programs::MERIDIAN);
        let output = command.args(args).output().expect("the binary runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && err.contains(why), "{err}");
    }
}

// An unknown scenario is refused with the names of the known ones.
#[test]
fn an_unknown_scenario_is_refused() {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let output = command.args(["chaos", "flood"]).output().expect("the binary runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("flood: use one of replicas, "), "{err}");
}

// A program whose clock is set reads that time, and another program does not. So the scenario
// `clocks` has an effect.
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
