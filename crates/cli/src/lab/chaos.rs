//! `meridian chaos`: breaks a fleet of this machine on purpose, and judges what came of it.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use meridian_lab::up::chaos::{self, Options, RANDOM};

use super::bench::seconds;

/// Break a fleet on this machine on purpose, under load, and compare all books afterwards
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenarios [default: all]
    scenarios: Vec<String>,
    /// Seed of who is hit and when, and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long faults come in the scenario `random` [default: 10m]
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    length: Option<Duration>,
    /// The short form: one scenario with something of everything
    #[arg(long, conflicts_with = "scenarios")]
    short: bool,
    /// Names the scenarios
    #[arg(long)]
    list: bool,
}

const DEFAULT_LENGTH: Duration = Duration::from_secs(600);
const SHORTEST: Duration = Duration::from_secs(20);

/// Runs the command. It succeeds only if every scenario kept what it promises.
///
/// # Errors
/// When a fleet cannot be brought up, or something was found wrong.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.list {
        for (name, what) in chaos::names() {
            println!("{name:<14}{what}");
        }
        return Ok(());
    }
    let Args { scenarios, seed, short, length, .. } = args;
    let random = scenarios.iter().any(|name| name == RANDOM);
    ensure!(
        random || length.is_none(),
        "--for is of the scenario `{RANDOM}`: name it, or leave --for out"
    );
    let length = length.unwrap_or(DEFAULT_LENGTH);
    ensure!(length >= SHORTEST, "--for {length:?} is too short for a fault: use 20s or more");
    let options = Options { seed, only: scenarios, length, short, binary: None };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let wrong = runtime.block_on(chaos::run(&options))?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\nerror: "));
    }
    println!("every scenario kept what it promises (seed {seed})");
    Ok(())
}
