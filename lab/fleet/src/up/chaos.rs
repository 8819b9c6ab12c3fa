//! The chaos suite: `meridian up` with tables of faults instead of clicks, and a check of the
//! results.
//!
//! Each scenario starts its own fleet, injects the faults of its table under load, repairs them,
//! waits until everything is as before, and then compares the counts of clients, gateways and
//! engines. A scenario's promise to its clients is a value, too. The seed determines the targets,
//! and the time of each fault to the half second. The exact state of the machine at a fault varies
//! and must not matter.
//!
//! Nothing here asserts durations: the recovery time of TTFT is reported, and is asserted in
//! simulated time (`lab/sim/tests/all/heal.rs`).

mod account;
mod answers;
mod books;
mod clients;
mod deck;
mod left;
mod play;
mod pools;
mod pulse;
mod random;
mod registry;
mod scenario;
mod scenes;
mod tables;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use meridian_base::Rng;

use crate::{Error, Result};
use scenario::Scenario;
use scenes::{ALL, SHORT};

/// Settings of the suite.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seed of targets, times and load.
    pub seed: u64,
    /// The scenarios' names; all of them when empty, apart from those with a length.
    pub only: Vec<String>,
    /// How long faults are injected in the scenarios of [`LONG`].
    pub length: Duration,
    /// The short form: two scenarios with a mix of all faults.
    pub short: bool,
    /// The `meridian` to run; none runs this program itself.
    pub binary: Option<PathBuf>,
}

/// The scenario without a table: random faults of all kinds, for the given time.
const RANDOM: &str = "random";

/// The scenario with prefill and decode replicas: faults of their pairs, for the given time.
const POOLS: &str = "pools";

/// The scenario with three control planes on etcd: faults of both, for the given time.
const REGISTRY: &str = "registry";

/// The scenarios with a length, each with a description.
pub const LONG: [(&str, &str); 3] = [
    (RANDOM, "random faults every few seconds, for the time in --for; every answer is compared"),
    (
        POOLS,
        "faults of prefill and decode replicas, for the time in --for; every answer is compared",
    ),
    (
        REGISTRY,
        "faults of three control planes and of etcd, for the time in --for; the registry is \
         compared, too",
    ),
];

/// The names of all scenarios, with a description of each.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tables = ALL.iter().chain(SHORT).map(|scenario| (scenario.name, scenario.what));
    tables.chain(LONG)
}

/// Runs the scenarios and prints the result of each; returns all problems, one sentence each.
///
/// # Errors
/// If there is no such scenario.
pub async fn run(options: &Options) -> Result<Vec<String>> {
    let chosen = chosen(options)?;
    let (mut wrong, mut rows) = (Vec::new(), Vec::new());
    for name in &options.only {
        wrong.extend(match name.as_str() {
            RANDOM => random::run(options).await?,
            POOLS => pools::run(options).await?,
            REGISTRY => registry::run(options).await?,
            _ => continue,
        });
    }
    for scenario in chosen {
        let steps = scenario.steps(&mut Rng::new(options.seed));
        println!("\n== {}: {}", scenario.name, scenario.what);
        let again = format!("meridian chaos {} --seed {}", scenario.name, options.seed);
        println!("   repeat: {again}");
        let faults = match play::play(scenario, &steps, options).await {
            Ok(played) => {
                print!("{}", tables::one(&played));
                rows.push(tables::row(scenario, &played));
                played.faults
            }
            Err(error) => vec![error.to_string()],
        };
        for fault in &faults {
            println!("   WRONG: {fault}");
        }
        wrong.extend(faults.into_iter().map(|fault| format!("{again}: {fault}")));
    }
    if !rows.is_empty() {
        println!("\n{}", tables::all(rows));
    }
    Ok(wrong)
}

fn chosen(options: &Options) -> Result<Vec<&'static Scenario>> {
    if options.only.is_empty() {
        return Ok(if options.short { SHORT } else { ALL }.iter().collect());
    }
    let find = |name: &String| ALL.iter().chain(SHORT).find(|scenario| scenario.name == *name);
    let one = |name: &String| {
        find(name).ok_or_else(|| Error::Setting {
            field: "scenario",
            value: name.clone(),
            remedy: format!(
                "use one of {}",
                names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
            ),
        })
    };
    let has_length = |name: &&String| LONG.iter().any(|(long, _)| *long == name.as_str());
    options.only.iter().filter(|name| !has_length(name)).map(one).collect()
}

/// Load before the first fault and after the last repair.
const CALM: Duration = Duration::from_secs(6);
