//! The parts of the test command.
//!
//! They share one build: every call of cargo uses the same packages, features and profile, `up` and
//! `sim` run the programs that were built with the tests, and `dist` compiles the crates of the two
//! programs again.

use std::collections::BTreeSet;
use std::fmt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};

use super::dist;
use super::limit;
use super::tally::Tally;
use crate::check;
use crate::cmd::{cargo, cmd};
use crate::house::House;

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Part {
    Build,
    Check,
    Unit,
    Sim,
    Real,
    Up,
    Dist,
    Chaos,
    Reference,
    VllmPd,
}

/// The prefix of the file names of test programs that start real processes.
const REAL: &str = "real";

/// Timeout of each program.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Timeout of the real pair: its engines start twice, and minutes go by until they are ready.
const PAIR_LIMIT: Duration = Duration::from_secs(60 * 60);

impl Part {
    /// The parts that CI runs. Without the reference, which fetches 600 MB of other projects and
    /// whose recorded choices are among the unit tests. Without chaos, which takes long and has a
    /// short form among the real ones. Without the pair of vLLM engines, which needs 6 GB and half
    /// an hour; recordings of such a pair are among the unit tests.
    pub(crate) const ALL: &[Part] =
        &[Part::Build, Part::Check, Part::Unit, Part::Sim, Part::Real, Part::Up, Part::Dist];
    pub(crate) const FAST: &[Part] = &[Part::Build, Part::Check, Part::Unit];

    /// The subject of the part, in a line.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Part::Build => "all programs and tests",
            Part::Check => "the house rules",
            Part::Unit => "tests of every crate, without other software",
            Part::Sim => "30 s of simulated worlds from seeds that were never tried",
            Part::Real => "real processes: llama.cpp servers, regions, a browser, name servers",
            Part::Up => "three regions of model engines and one of llama.cpp, for 15 s each",
            Part::Dist => "each package is made, installed and used",
            Part::Chaos => {
                "every scenario of faults, from a seed; faults by chance, of the registry too; 1,000 kills of the store"
            }
            Part::Reference => "our policies beside the real routers, recorded again",
            Part::VllmPd => {
                "a real vLLM pair behind a gateway, beside one engine; an adapter in one of three engines"
            }
        }
    }

    /// Whether the part runs programs that the build makes. The check and the packages have builds
    /// of their own.
    pub(crate) fn needs_build(self) -> bool {
        !matches!(self, Part::Check | Part::Dist)
    }

    pub(crate) fn run(self, house: &House, tally: &mut Tally) -> anyhow::Result<()> {
        match self {
            Part::Build => ensure!(house.build()?, "the workspace does not build"),
            Part::Check => {
                ensure!(check::run(house, &check::Args::default())?, "rules are broken, see above");
            }
            Part::Unit => {
                let programs = programs(house);
                let units = programs.iter().filter(|name| !name.starts_with(REAL));
                let units = units.flat_map(|name| ["--test", name]);
                let args: Vec<&str> = ["--lib", "--bins"].into_iter().chain(units).collect();
                let units = cargo_test(house, &args, tally);
                let examples = cargo_test(house, &["--doc"], tally);
                units.and(examples)?;
            }
            Part::Sim => search(house)?,
            Part::Real => {
                let there = programs(house).iter().any(|name| name.starts_with(REAL));
                ensure!(there, "no crate has a tests/{REAL}, so nothing real was tested");
                cargo_test(house, &["--test", "real*"], tally)?;
            }
            Part::Up => {
                let model = up(house, &["up", "--for", "15s"]);
                let real = up(house, &["up", "--for", "15s", "--engine", "llamacpp"]);
                model.and(real)?;
            }
            Part::Dist => dist::run(house, tally)?,
            Part::Chaos => {
                // The run is named by the seconds since 1970; the suite prints how to repeat it.
                #[expect(clippy::disallowed_methods, reason = "a seed that was never tried")]
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let seed = now.unwrap_or_default().as_secs().to_string();
                let scenarios = up(house, &["chaos", "--seed", &seed]);
                let random = up(house, &["chaos", "random", "--for", "5m", "--seed", &seed]);
                let registry = up(house, &["chaos", "registry", "--for", "5m", "--seed", &seed]);
                let store = kills(house, tally);
                scenarios.and(random).and(registry).and(store)?;
            }
            Part::Reference => reference(house, tally)?,
            Part::VllmPd => pair(house, tally)?,
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Part::Build => "build",
            Part::Check => "check",
            Part::Unit => "unit",
            Part::Sim => "sim",
            Part::Real => "real",
            Part::Up => "up",
            Part::Dist => "dist",
            Part::Chaos => "chaos",
            Part::Reference => "reference",
            Part::VllmPd => "vllm-pd",
        })
    }
}

/// The names of the test programs under `tests/`, each once: cargo runs all that have the name.
/// Without those that a crate sets apart with `test = false`.
fn programs(house: &House) -> BTreeSet<String> {
    let targets = house.packages().into_iter().flat_map(|package| &package.targets);
    targets
        .filter(|target| target.is_test() && target.test)
        .map(|target| target.name.clone())
        .collect()
}

/// Runs test programs, forwards their output and counts the results.
fn cargo_test(house: &House, which: &[&str], tally: &mut Tally) -> anyhow::Result<()> {
    let args = [&["test", "--workspace", "--no-fail-fast"], which].concat();
    let passed = count(cargo(&house.root, &args), tally)?;
    // The documents may have no examples; but a test program without a test tests nothing.
    ensure!(passed > 0 || which == ["--doc"], "no test ran");
    Ok(())
}

/// Runs a test command; returns the number of tests passed.
fn count(command: Command, tally: &mut Tally) -> anyhow::Result<u64> {
    count_within(LIMIT, command, tally)
}

fn count_within(limit: Duration, command: Command, tally: &mut Tally) -> anyhow::Result<u64> {
    let mut sum = Tally::default();
    let status = limit::run(command, limit, |line| {
        println!("{line}");
        if let Some(counts) = Tally::of_line(line) {
            sum += counts;
        }
    });
    *tally += sum;
    ensure!(status?.success(), "tests failed, see above");
    Ok(sum.passed)
}

/// Kills a process that writes to the embedded store, a thousand times.
fn kills(house: &House, tally: &mut Tally) -> anyhow::Result<()> {
    let args =
        ["test", "--package", "meridian-control", "--test", "all", "kill::", "--", "--nocapture"];
    let mut kills = cargo(&house.root, &args);
    kills.env("MERIDIAN_KILLS", "1000");
    ensure!(count(kills, tally)? > 0, "no test ran");
    Ok(())
}

/// Records the real routers' choices, and runs the replay on those instead of the shipped ones.
fn reference(house: &House, tally: &mut Tally) -> anyhow::Result<()> {
    let to = house.root.join("target/reference");
    let to = to.to_str().context("the checkout's path is not text")?;
    let args = ["lab/bench/reference/record_all.py", to];
    let record = cmd(&house.root, "python3", &args);
    let status = limit::run(record, LIMIT, |line| println!("{line}"))?;
    ensure!(status.success(), "the routers could not be recorded, see above");
    let args = ["test", "--workspace", "--test", "all", "reference::", "--", "--nocapture"];
    let mut replay = cargo(&house.root, &args);
    replay.env("REFERENCE", to);
    ensure!(count(replay, tally)? > 0, "no test ran");
    Ok(())
}

/// Runs the tests of real vLLM engines, which cargo runs by their program's name only.
fn pair(house: &House, tally: &mut Tally) -> anyhow::Result<()> {
    let test = ["test", "--workspace", "--test", "vllm_pd", "--", "--nocapture"];
    let test = cargo(&house.root, &test);
    ensure!(count_within(PAIR_LIMIT, test, tally)? > 0, "no test ran");
    Ok(())
}

/// Simulates worlds with fresh seeds; one that breaks an invariant is printed with its command.
fn search(house: &House) -> anyhow::Result<()> {
    let search = cmd(&house.root, house.search(), &["--for", "30"]);
    let status = limit::run(search, LIMIT, |line| println!("{line}"))?;
    ensure!(status.success(), "a simulated world broke an invariant, see above");
    Ok(())
}

fn up(house: &House, args: &[&str]) -> anyhow::Result<()> {
    println!("$ meridian {}", args.join(" "));
    let status =
        limit::run(cmd(&house.root, house.meridian(), args), LIMIT, |line| println!("{line}"))?;
    ensure!(status.success(), "meridian {} ended with {status}", args.join(" "));
    Ok(())
}
