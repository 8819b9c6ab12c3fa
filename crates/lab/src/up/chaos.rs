//! The chaos suite: `meridian up` with tables of faults in place of somebody's clicks, and a judge.
//!
//! Each scenario brings up a fleet of its own, breaks it under load as its table says, mends it,
//! waits until everything is as it was, and then compares the books of clients, gateways and
//! engines. What a scenario promises its clients is a value too. Who is hit, and when to the half
//! second, comes from the seed; what a fault meets is the machine's affair and must not matter.
//!
//! Nothing here asserts how long something took: how fast TTFT came back is told, and is asserted
//! where the clock is invented (`crates/sim/tests/heal.rs`).

mod books;
mod left;
mod play;
mod pulse;
mod random;
mod scenario;
mod scenes;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

use meridian_base::Rng;

use crate::{Error, Result};
use scenario::Scenario;
use scenes::{ALL, SHORT};

/// What to break.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seed of who is hit and when, and of the load.
    pub seed: u64,
    /// The scenarios' names; all of them when empty, apart from [`RANDOM`].
    pub only: Vec<String>,
    /// How long faults come in [`RANDOM`].
    pub length: Duration,
    /// The short form: two scenarios that have something of everything.
    pub short: bool,
    /// The `meridian` to run; none takes this very program.
    pub binary: Option<PathBuf>,
}

/// The scenario without a table: faults of all kinds by chance, for as long as asked.
pub const RANDOM: &str = "random";

/// The names of all scenarios, with what each is about.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let random =
        (RANDOM, "a fault of any kind every few seconds, for --for; every answer is compared");
    ALL.iter().chain(SHORT).map(|scenario| (scenario.name, scenario.what)).chain([random])
}

/// Plays the scenarios and prints what came of each; returns what was found wrong, a sentence each.
///
/// # Errors
/// When there is no such scenario.
pub async fn run(options: &Options) -> Result<Vec<String>> {
    let chosen = chosen(options)?;
    let (mut wrong, mut rows) = (Vec::new(), Vec::new());
    if options.only.iter().any(|name| name == RANDOM) {
        wrong.extend(random::run(options).await?);
    }
    for scenario in chosen {
        let steps = scenario.steps(&mut Rng::new(options.seed));
        println!("\n== {}: {}", scenario.name, scenario.what);
        let again = format!("meridian chaos {} --seed {}", scenario.name, options.seed);
        println!("   again: {again}");
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
    options.only.iter().filter(|name| *name != RANDOM).map(one).collect()
}

/// The load runs for this long before the first fault and after the last was mended.
const CALM: Duration = Duration::from_secs(6);
