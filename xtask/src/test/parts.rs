//! The parts of the test command.
//!
//! They share one build: every call of cargo uses the same packages, features and profile, `up` and
//! `sim` run the programs that were built with the tests, and `dist` compiles the crates of the two
//! programs again.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};

use super::dist;
use super::limit;
use super::tally::Tally;
use crate::check;
use crate::cmd::{cargo, cmd};
use crate::house::House;
use crate::quickstart::{PAGE, Reader};
use crate::scope::Kind;

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Part {
    Build,
    Check,
    Unit,
    Heavy,
    Sim,
    Real,
    Foreign,
    Kube,
    Up,
    Dist,
    Chaos,
    Reference,
    VllmPd,
}

/// Timeout of each program.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Timeout of the tests that take minutes, together.
const HEAVY_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Timeout of the real pair: its engines start twice, and minutes go by until they are ready.
const PAIR_LIMIT: Duration = Duration::from_secs(60 * 60);

impl Part {
    /// The parts of `--all`. Without the reference, which fetches 600 MB of other projects and whose
    /// recorded choices are among the unit tests. Without chaos, which takes long and has a short form
    /// among the heavy tests. Without the pair of vLLM engines, which needs 6 GB and half an hour;
    /// recordings of such a pair are among the unit tests.
    pub(crate) const ALL: &[Part] = &[
        Part::Build,
        Part::Check,
        Part::Unit,
        Part::Heavy,
        Part::Sim,
        Part::Real,
        Part::Foreign,
        Part::Kube,
        Part::Up,
        Part::Dist,
    ];
    /// The parts of each change, and `dist` where the change touches the packages.
    pub(crate) const DAILY: &[Part] = &[Part::Build, Part::Check, Part::Unit, Part::Real, Part::Up];
    pub(crate) const FAST: &[Part] = &[Part::Build, Part::Check, Part::Unit];

    /// The subject of the part, in a line.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Part::Build => "all programs and tests",
            Part::Check => "the house rules",
            Part::Unit => "tests that need no other software",
            Part::Heavy => "tests that take minutes",
            Part::Sim => "30 s of simulated worlds from seeds that were never tried",
            Part::Real => {
                "the product end to end: gateways, control planes, llama.cpp servers, etcd"
            }
            Part::Foreign => "validators, clients and servers of other projects",
            Part::Kube => "a Kubernetes API server, built from source: our chart, and discovery",
            Part::Up => {
                "the quickstarts with model engines; with all crates llama.cpp for 15 s too"
            }
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
                let units = house.programs(Kind::Unit);
                let units = units.into_iter().flat_map(|name| ["--test", name]);
                let args: Vec<&str> = ["--lib", "--bins"].into_iter().chain(units).collect();
                let units = cargo_test(house, LIMIT, &args, tally);
                let examples = cargo_test(house, LIMIT, &["--doc"], tally);
                units.and(examples)?;
            }
            Part::Heavy => programs(house, Kind::Heavy, HEAVY_LIMIT, tally)?,
            Part::Sim => search(house)?,
            Part::Real => programs(house, Kind::Real, LIMIT, tally)?,
            Part::Foreign => programs(house, Kind::Foreign, LIMIT, tally)?,
            // Its programs are built before its first test.
            Part::Kube => programs(house, Kind::Kube, HEAVY_LIMIT, tally)?,
            Part::Up => {
                let model = up(house, &["up", "--for", "15s"]);
                let pages = quickstarts(house);
                let llamacpp = ["up", "--for", "15s", "--engine", "llamacpp"];
                let real = if house.scope.whole() { up(house, &llamacpp) } else { Ok(()) };
                // Each prints what failed, so that one failure hides no other.
                let failed = [model, pages, real].into_iter().filter_map(Result::err);
                let failed: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
                ensure!(failed.is_empty(), "{}", failed.join("\n"));
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

    /// The kind of the test programs that the part runs.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Part::Unit => Some(Kind::Unit),
            Part::Heavy => Some(Kind::Heavy),
            Part::Real => Some(Kind::Real),
            Part::Foreign => Some(Kind::Foreign),
            Part::Kube => Some(Kind::Kube),
            _ => None,
        }
    }

    /// Software that the part needs, by the names that `x` installs it under.
    pub(crate) fn software(self) -> &'static [&'static str] {
        match self {
            Part::Build | Part::Check | Part::Sim => &[],
            Part::Unit | Part::Up | Part::Reference | Part::VllmPd => &["python"],
            Part::Heavy => &["clocks", "network", "etcd"],
            Part::Kube => &["python", "etcd"],
            Part::Real => &["python", "network", "etcd", "dig"],
            Part::Foreign => {
                &["python", "network", "etcd", "dig", "dns", "browser", "nginx", "prometheus"]
            }
            Part::Dist => &["python", "readers"],
            Part::Chaos => &["python", "clocks", "network", "etcd"],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Part::Build => "build",
            Part::Check => "check",
            Part::Unit => "unit",
            Part::Heavy => "heavy",
            Part::Sim => "sim",
            Part::Real => "real",
            Part::Foreign => "foreign",
            Part::Kube => "kube",
            Part::Up => "up",
            Part::Dist => "dist",
            Part::Chaos => "chaos",
            Part::Reference => "reference",
            Part::VllmPd => "vllm-pd",
        })
    }
}

/// Runs all test programs of a kind.
fn programs(house: &House, kind: Kind, limit: Duration, tally: &mut Tally) -> anyhow::Result<()> {
    let prefix = kind.prefix();
    let there = !house.programs(kind).is_empty();
    ensure!(there, "no crate has a test program tests/{prefix}, so nothing was tested");
    cargo_test(house, limit, &["--test", &format!("{prefix}*")], tally)
}

/// Runs test programs, forwards their output and counts the results.
fn cargo_test(
    house: &House,
    limit: Duration,
    which: &[&str],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let args = [&["test", "--no-fail-fast"], &house.scope.args()[..], which].concat();
    let passed = count_within(limit, cargo(&house.root, &args), tally)?;
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
    let args = ["lab/rivals/reference/record_all.py", to];
    let record = cmd(&house.root, "python3", &args);
    let status = limit::run(record, LIMIT, |line| println!("{line}"))?;
    ensure!(status.success(), "the routers could not be recorded, see above");
    let test = ["test", "--workspace", "--test", "all"];
    let args = [&test[..], &["reference::", "--", "--nocapture"]].concat();
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

/// Follows the quickstart for one region and for several, with the programs from the build.
fn quickstarts(house: &House) -> anyhow::Result<()> {
    let meridian = house.meridian();
    let programs = meridian.parent().context("the program is in a folder")?;
    let parts: [(_, &[_]); 2] =
        [("## One region", &[]), ("## Several regions", &["127.0.0.1:8000", "127.0.0.1:8001"])];
    for (heading, stops) in parts {
        let folder = house.root.join("target/quickstart");
        let _ = std::fs::remove_dir_all(&folder);
        // The page's files, as a clone has them.
        let examples = folder.join("examples/three-regions");
        std::fs::create_dir_all(&examples).context("target/quickstart")?;
        for region in ["us", "eu", "asia"] {
            let name = format!("gateway-{region}.yaml");
            let text = house.file(&format!("examples/three-regions/{name}"))?;
            std::fs::write(examples.join(name), text)?;
        }
        let start = Instant::now();
        let reader = Reader { folder, programs, has_servers: false, stops };
        let commands = reader.follow(house, heading).with_context(|| heading.to_owned())?;
        println!("{PAGE}, {heading}: {commands} commands, {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn up(house: &House, args: &[&str]) -> anyhow::Result<()> {
    println!("$ meridian {}", args.join(" "));
    let status =
        limit::run(cmd(&house.root, house.meridian(), args), LIMIT, |line| println!("{line}"))?;
    ensure!(status.success(), "meridian {} ended with {status}", args.join(" "));
    Ok(())
}
