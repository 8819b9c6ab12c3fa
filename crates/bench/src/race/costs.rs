//! What a request costs a gateway: system calls, wake-ups, allocations, copies and CPU time, beside
//! nginx, in the cases of the race.
//!
//! Each system runs twice. Once untouched, for CPU time and wake-ups, then under strace, for its system
//! calls, which slows it: with several connections, a slow program finds more events in each wait. The
//! second time, a library in front of libc counts allocations and copies. Counts per request hardly
//! depend on the machine or on what else it does; CPU time does.

mod calls;
mod counts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cases::{self, CASES, Case};
use super::peers::{self, Binaries, System};
use super::replicas::Replicas;
use super::wrk;
use crate::commit::commit;
use crate::experiment::table::Table;
use calls::Calls;
use counts::Counter;

/// What to count.
#[derive(Clone, Debug)]
pub struct Options {
    /// Binary of the gateway under test, which also includes the mock.
    pub meridian: PathBuf,
    /// Binary of an earlier build.
    pub before: Option<PathBuf>,
    /// Systems; empty for nginx and Meridian, and the earlier build if there is one.
    pub only: Vec<String>,
    /// Length of a measurement.
    pub each: Duration,
    /// Output file.
    pub json: PathBuf,
}

/// Systems without `only`.
const USUAL: [&str; 3] = ["nginx", "before", "meridian"];
/// Length of a load that opens the connections and fills the pools.
const WARM_UP: Duration = Duration::from_secs(1);

/// A request of a case.
#[derive(Clone, Debug)]
struct Cost {
    cpu_us: f64,
    wake_ups: f64,
    /// By name.
    calls: BTreeMap<String, f64>,
    /// Allocations, their bytes; copies, their bytes.
    counts: [f64; 4],
}

/// Kinds of system calls, with the names that belong to them.
const KINDS: [(&str, &[&str]); 4] = [
    ("reads", &["read", "readv", "recvfrom", "recvmsg"]),
    ("writes", &["write", "writev", "sendto", "sendmsg", "sendfile"]),
    ("waits", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("wakes", &["futex"]),
];

impl Cost {
    fn of(&self, names: &[&str]) -> f64 {
        // The sum of nothing is -0.
        names.iter().filter_map(|name| self.calls.get(*name)).sum::<f64>() + 0.0
    }

    fn calls(&self) -> f64 {
        self.calls.values().sum()
    }

    /// Calls of no kind.
    fn others(&self) -> f64 {
        self.calls() - KINDS.iter().map(|(_, names)| self.of(names)).sum::<f64>()
    }

    fn json(&self) -> Value {
        let [allocations, allocated, copies, copied] = self.counts;
        json!({
            "cpu_us": self.cpu_us, "wake_ups": self.wake_ups, "system_calls": self.calls(),
            "by_name": self.calls, "allocations": allocations, "allocated_bytes": allocated,
            "copies": copies, "copied_bytes": copied,
        })
    }
}

/// Counts, prints the table and writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.each >= WARM_UP, "--each: {:?} is too short; use 1s or more", options.each);
    for (flag, binary) in
        [("--meridian", Some(&options.meridian)), ("--before", options.before.as_ref())]
    {
        let there = binary.is_none_or(|path| path.is_file());
        ensure!(
            there,
            "{flag}: {} is not a file; name a binary",
            binary.map_or("".into(), |path| path.display().to_string())
        );
    }
    let dir = options.json.parent().unwrap_or(Path::new(".")).join("costs");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    cases::write_bodies(&dir)?;
    wrk::write_script(&dir)?;
    let counter = Counter::new(&dir)?;
    let usual: Vec<String> = USUAL.map(str::to_owned).to_vec();
    let has_before = options.before.is_some();
    let mut only = if options.only.is_empty() { usual } else { options.only.clone() };
    only.retain(|name| name != "before" || has_before || !options.only.is_empty());
    let names = peers::names(&only, false, has_before)?;
    let secured = names.iter().any(|name| peers::has_https(name));
    let mut replicas = Replicas::start(&options.meridian, false, secured, &dir)?;
    let mut costs = Vec::new();
    for name in names.into_iter().filter(|name| *name != "direct") {
        costs.extend(of_system(name, options, &counter, &mut replicas, &dir)?);
    }
    println!("{}", table(&costs).text());
    let rows: Vec<Value> = costs
        .iter()
        .map(|(system, case, cost)| json!({"name": system, "case": case.name, "cost": cost.json()}))
        .collect();
    let value = json!({"bench": "costs", "commit": commit(), "unit": "each request", "rows": rows});
    let path = &options.json;
    std::fs::write(path, serde_json::to_vec_pretty(&value)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A system, a case, and the cost.
type Row = (&'static str, &'static Case, Cost);

fn of_system(
    name: &'static str,
    options: &Options,
    counter: &Counter,
    replicas: &mut Replicas,
    dir: &Path,
) -> anyhow::Result<Vec<Row>> {
    let each = options.each;
    let start = |environment| {
        let binaries = Binaries {
            meridian: &options.meridian,
            before: options.before.as_deref(),
            environment,
        };
        eprintln!("starting {name}");
        let system = peers::start(name, binaries, replicas, dir)?;
        system.check(replicas, dir)?;
        anyhow::Ok(system)
    };
    let mut rows = Vec::new();
    let mut system = start(&[])?;
    for case in &CASES {
        wrk::run(&system.address, case, WARM_UP, dir)?;
        let (cpu_us, wake_ups) = untouched(&system, case, each, dir)?;
        let calls = traced(&system, case, each, dir)?;
        system.alive()?;
        rows.push((name, case, Cost { cpu_us, wake_ups, calls, counts: [0.0; 4] }));
    }
    drop(system);
    let mut system = start(&counter.environment())?;
    for (_, case, cost) in &mut rows {
        wrk::run(&system.address, case, WARM_UP, dir)?;
        let before = counter.read()?;
        let load = wrk::run(&system.address, case, each, dir)?;
        cost.counts = counter.read()?.each(before, load.requests.max(1) as f64);
        system.alive()?;
    }
    replicas.alive()?;
    Ok(rows)
}

/// CPU time, us, and wake-ups of a request.
fn untouched(
    system: &System,
    case: &Case,
    each: Duration,
    dir: &Path,
) -> anyhow::Result<(f64, f64)> {
    let before = (system.cpu(), system.wake_ups());
    let load = wrk::run(&system.address, case, each, dir)?;
    let requests = load.requests.max(1) as f64;
    let cpu = system.cpu().saturating_sub(before.0).as_secs_f64() * 1e6;
    Ok((cpu / requests, system.wake_ups().saturating_sub(before.1) as f64 / requests))
}

/// System calls of a request, by name.
fn traced(
    system: &System,
    case: &Case,
    each: Duration,
    dir: &Path,
) -> anyhow::Result<BTreeMap<String, f64>> {
    let calls = Calls::begin(&system.processes(), dir)?;
    let load = wrk::run(&system.address, case, each, dir)?;
    let requests = load.requests.max(1) as f64;
    let all = calls.end()?.into_iter();
    Ok(all.map(|(name, count)| (name, count as f64 / requests)).collect())
}

fn table(costs: &[Row]) -> Table {
    let mut header = vec!["case", "system", "CPU, us", "wake-ups", "system calls"];
    header.extend(KINDS.map(|(kind, _)| kind));
    header.extend(["others", "allocations", "allocated, B", "copies", "copied, B"]);
    let mut table = Table::new("What a request costs", &header);
    for case in &CASES {
        for (system, _, cost) in costs.iter().filter(|(_, of, _)| of.name == case.name) {
            let tenth = |value: f64| format!("{value:.1}");
            let mut row = vec![case.title.to_owned(), (*system).to_owned(), tenth(cost.cpu_us)];
            row.extend([cost.wake_ups, cost.calls()].map(tenth));
            row.extend(KINDS.map(|(_, names)| tenth(cost.of(names))));
            row.push(tenth(cost.others()));
            let [allocations, allocated, copies, copied] = cost.counts;
            row.extend([tenth(allocations), format!("{allocated:.0}")]);
            row.extend([tenth(copies), format!("{copied:.0}")]);
            table.row(row);
        }
    }
    table
}
