//! `meridian chaos`: breaks a fleet of this machine on purpose, and judges what came of it.

use anyhow::{Context, bail};
use meridian_lab::up::chaos::{self, Options};

/// Break a fleet on this machine on purpose, under load, and compare all books afterwards
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenarios [default: all]
    scenarios: Vec<String>,
    /// Seed of who is hit and when, and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The short form: one scenario with something of everything
    #[arg(long, conflicts_with = "scenarios")]
    short: bool,
    /// Names the scenarios
    #[arg(long)]
    list: bool,
}

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
    let Args { scenarios, seed, short, .. } = args;
    let options = Options { seed, only: scenarios, short, binary: None };
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
