//! `meridian demo`: the argument for Meridian in simulation, then two fleets side by side.
//!
//! Each part is what another command does: `what-if`, `experiment`, and the fleets of `up`.

mod simulated;

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use meridian_fleet::up::demo::{self, DemoOptions};

use crate::up::duration;

/// Show in two minutes what Meridian gains: simulated, then on two fleets side by side
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Length of the live part, of which a replica is killed after half a minute
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    length: Duration,
    /// Seed of the live part's clients
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command. It succeeds if every request ended and the counts agree.
///
/// # Errors
/// If the fleets cannot start, or counts differ.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let options = DemoOptions { seed: args.seed, length: args.length };
    options.check()?;
    simulated::show()?;
    say("\nNow see it live: two fleets start on this machine.\n");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let verdict = runtime.block_on(demo::run(&options))?;
    if !verdict.faults.is_empty() {
        bail!("{}", verdict.faults.join("\nerror: "));
    }
    say("Every request ended, and clients and gateways agree on their number.");
    Ok(())
}

/// Prints a line. The reader of the output may be gone; the demo continues.
fn say(text: &str) {
    writeln!(std::io::stdout().lock(), "{text}").ok();
}
