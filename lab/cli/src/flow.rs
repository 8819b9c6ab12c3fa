//! `meridian flow`: the transfers of a prefill/decode cluster, simulated and on real cards.

mod coordinator;
mod doctor;
mod qdisc;
mod sim;

use std::io::Write as _;

/// Order the network transfers of a prefill/decode cluster
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Coordinator(coordinator::Coordinator),
    Qdisc(Box<qdisc::Qdisc>),
    /// Measure this host's cards, and look up what flow scheduling would be worth
    Doctor(Box<doctor::Doctor>),
    /// Simulate a prefill cluster, or single flows, under flow policies
    Sim(Box<sim::Sim>),
    /// List the flow policies
    Policies,
}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Coordinator(args) => coordinator::run(&args),
        Command::Qdisc(args) => qdisc::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Sim(args) => sim::run(*args),
        Command::Policies => {
            let mut out = std::io::stdout().lock();
            for spec in meridian_flow::policy::ALL {
                writeln!(out, "{:<10} {} ({})", spec.name, spec.summary, spec.source)?;
            }
            Ok(())
        }
    }
}
