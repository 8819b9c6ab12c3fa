//! `meridian chaos`: injects faults into a fleet on this machine, and checks the result.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use meridian_fleet::up::chaos::{self, Options};

use super::bench::seconds;

/// Inject faults into a fleet on this machine under load, and compare all counts afterwards
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenarios [default: all]
    scenarios: Vec<String>,
    /// Seed of the faults and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the scenarios `random`, `pools`, `siblings` and `registry` [default: 10m]
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    length: Option<Duration>,
    /// Run one short scenario with every kind of fault
    #[arg(long, conflicts_with = "scenarios")]
    short: bool,
    /// List the scenarios
    #[arg(long)]
    list: bool,
}

const DEFAULT_LENGTH: Duration = Duration::from_secs(600);
const SHORTEST: Duration = Duration::from_secs(20);

/// Runs the command. It succeeds only if every scenario kept its guarantees.
///
/// # Errors
/// If a fleet cannot start, or a guarantee was broken.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.list {
        for (name, what) in chaos::names() {
            println!("{name:<14}{what}");
        }
        return Ok(());
    }
    let Args { scenarios, seed, short, length, .. } = args;
    let long = |name: &String| chaos::long().any(|long| long == name);
    ensure!(
        scenarios.iter().any(long) || length.is_none(),
        "--for: applies to the scenarios `{}` only; name one of them, or remove --for",
        chaos::long().collect::<Vec<_>>().join("`, `")
    );
    let length = length.unwrap_or(DEFAULT_LENGTH);
    ensure!(length >= SHORTEST, "--for: {length:?} is too short for a fault; use 20s or more");
    let options = Options { seed, only: scenarios, length, short, binary: None };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let wrong = runtime.block_on(chaos::run(&options))?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\nerror: "));
    }
    println!("every scenario kept its guarantees (seed {seed})");
    Ok(())
}
