//! `meridian flow`: the transfers of a prefill/decode cluster, simulated and on real cards.

mod doctor;
#[cfg(feature = "lab")]
mod sim;

#[cfg(feature = "lab")]
use std::io::Write as _;

/// Order the network transfers of a prefill/decode cluster
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Measure this host's cards, and look up what flow scheduling would be worth
    Doctor(Box<doctor::Doctor>),
    /// Simulate a prefill cluster, or single flows, under flow policies
    #[cfg(feature = "lab")]
    Sim(Box<sim::Sim>),
    /// List the flow policies
    #[cfg(feature = "lab")]
    Policies,
}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "lab")]
        Command::Sim(args) => sim::run(*args),
        #[cfg(feature = "lab")]
        Command::Policies => {
            let mut out = std::io::stdout().lock();
            for spec in meridian_flow::policy::ALL {
                writeln!(out, "{:<10} {} ({})", spec.name, spec.summary, spec.source)?;
            }
            Ok(())
        }
    }
}
