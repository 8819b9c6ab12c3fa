//! The chaos suite: `meridian up` with a schedule of faults instead of clicks, and checks of the
//! results.
//!
//! Each scenario starts a fleet with clients, injects the faults of its schedule, repairs them, waits
//! until everything is as before, and then compares the counts of clients, gateways and engines with
//! their limits. A scenario is data (`scenes.rs`), and one runner plays them all (`run.rs`). The seed
//! determines targets and times. The exact state of the machine at a fault varies and must not matter.
//!
//! Nothing here asserts durations: the recovery time of TTFT is reported, and is asserted in
//! simulated time (`lab/sim/tests/all/heal.rs`).

mod account;
mod answers;
mod books;
mod checks;
mod clients;
mod course;
mod deck;
mod done;
mod kinds;
mod kv;
mod registry;
mod run;
mod scenario;
mod scenes;
mod schedule;
mod siblings;
mod target;
mod wait;

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Result};
use checks::Checks;
use scenario::Scenario;
use scenes::{ALL, LONG, SHORT};

/// Settings of the suite.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seed of targets, times and load.
    pub seed: u64,
    /// The scenarios' names; all of them when empty, apart from those with a length.
    pub only: Vec<String>,
    /// How long faults are injected in the scenarios of [`long`].
    pub length: Duration,
    /// The short form: one scenario with a mix of all faults.
    pub short: bool,
    /// The `meridian` to run; none runs this program itself.
    pub binary: Option<PathBuf>,
}

/// The names of the scenarios with a length.
pub fn long() -> impl Iterator<Item = &'static str> {
    LONG.iter().map(|scenario| scenario.name)
}

/// The names of all scenarios, with a description of each.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    scenarios().map(|scenario| (scenario.name, scenario.what))
}

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    ALL.iter().chain(SHORT).chain(LONG)
}

/// Runs the scenarios and prints the result of each; returns all problems, one sentence each.
///
/// # Errors
/// If there is no such scenario.
pub async fn run(options: &Options) -> Result<Vec<String>> {
    let (mut wrong, mut rows) = (Vec::new(), Vec::new());
    for scenario in chosen(options)? {
        let again = scenario.again(options);
        println!("\n== {}: {}\n   repeat: {again}", scenario.name, scenario.what);
        let (mut runs, resumes) = (Vec::new(), (scenario.resume)(options.seed));
        for resume in resumes.iter().copied() {
            if resumes.len() > 1 {
                println!("   -- broken streams {}", if resume { "resume" } else { "end" });
            }
            let mut checks = Checks::default();
            match run::play(scenario, options, resume, &mut checks).await {
                Ok(played) => {
                    println!("{}", checks.table());
                    rows.extend(account::rows(scenario, resume, &played));
                    runs.push(played);
                }
                Err(error) => checks.faults.push(error.to_string()),
            }
            for fault in checks.all() {
                println!("   WRONG: {fault}");
                wrong.push(format!("{again}: {fault}"));
            }
        }
        if !runs.is_empty() {
            println!("{}", account::faults(&runs));
        }
    }
    if !rows.is_empty() {
        println!("\n{}", account::all(rows));
    }
    Ok(wrong)
}

fn chosen(options: &Options) -> Result<Vec<&'static Scenario>> {
    if options.only.is_empty() {
        return Ok(if options.short { SHORT } else { ALL }.iter().collect());
    }
    let one = |name: &String| {
        scenarios().find(|scenario| scenario.name == *name).ok_or_else(|| Error::Setting {
            field: "scenario",
            value: name.clone(),
            remedy: format!(
                "use one of {}",
                names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
            ),
        })
    };
    options.only.iter().map(one).collect()
}
