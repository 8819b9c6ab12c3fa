//! The command line of `meridian-lab`. `meridian` runs it under its own name
//! (`meridian_cli::laboratory`).

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use meridian_cli::{COMMIT, VERSION, ending, laboratory, man};

use crate::{
    bench, calibrate, chaos, demo, engine, experiment, flow, plan, up, wan, what_if, workload,
};

/// Fleets on one machine, simulations, benchmarks and plans for Meridian
#[derive(Parser)]
#[command(name = laboratory::PROGRAM, version = VERSION, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Order the network transfers of a prefill/decode cluster
    #[command(subcommand)]
    Flow(flow::Command),
    /// Show in two minutes what Meridian gains: simulated, then on two fleets side by side
    Demo(demo::Args),
    /// Start regions on this machine, with a load and a page that shows it
    Up(up::Args),
    /// Inject faults into a fleet on this machine under load, and check the result
    Chaos(chaos::Args),
    /// Run a model of an inference engine behind vLLM's API, without a GPU
    Engine(engine::Args),
    /// Load an OpenAI endpoint and measure it at the client
    Bench(Box<bench::Args>),
    /// Measure the TTFT of a replica by prompt length, for `ms_per_token`
    Calibrate(calibrate::Args),
    /// Reproduce a published comparison in simulation, next to the published figures
    Experiment(experiment::Args),
    /// Simulate your own traffic on other fleets and under other policies
    WhatIf(Box<what_if::Args>),
    /// Plan the placement of GPUs and their collectives
    Plan(Box<plan::Args>),
    /// Describe, write and convert workloads and traces
    #[command(subcommand)]
    Workload(workload::Command),
    /// Emulate the WAN between regions on one machine; see lab/docs/up-and-chaos.md
    #[command(hide = true)]
    Wan(wan::Args),
    /// Print the completion script of a shell
    Completions(man::Completions),
    /// Write the man pages
    #[command(hide = true)]
    Man(man::Man),
}

/// The command line that completions and man pages describe: this program's, or `meridian`'s with
/// these commands if that became this process.
fn described() -> clap::Command {
    let own = Cli::command();
    if !laboratory::is_instead() {
        return own;
    }
    let of_both = meridian_cli::command();
    laboratory::COMMANDS.iter().fold(of_both, |all, (name, _)| {
        let whole = own.find_subcommand(name).expect("a test compares the lists").clone();
        all.mut_subcommand(name, |_| whole)
    })
}

/// Runs the command of this process's arguments.
pub(crate) fn run() -> ExitCode {
    // Loads need a file descriptor for each connection; other commands are unaffected.
    meridian_gateway::raise_descriptors();
    meridian_config::policies::install(meridian_rivals::EVERY);
    meridian_tools::built(COMMIT, VERSION);
    ending::status(match Cli::parse().command {
        Command::Flow(command) => flow::run(command),
        Command::Demo(args) => demo::run(&args),
        Command::Up(args) => up::run(args),
        Command::Chaos(args) => chaos::run(args),
        Command::Engine(args) => engine::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Experiment(args) => experiment::run(&args),
        Command::WhatIf(args) => what_if::run(*args),
        Command::Plan(args) => plan::run(&args),
        Command::Workload(command) => workload::run(command),
        Command::Wan(args) => wan::run(&args),
        Command::Completions(args) => args.run(described()),
        Command::Man(args) => args.run(described()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // `meridian --help` lists the laboratory's commands with the laboratory's own words.
    #[test]
    fn meridian_lists_the_commands_that_are_here() {
        let own = Cli::command();
        let shown = own.get_subcommands().filter(|one| !one.is_hide_set());
        let shown =
            shown.map(|one| (one.get_name().to_owned(), one.get_about().unwrap().to_string()));
        let listed = laboratory::COMMANDS.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        let shown: Vec<_> = shown.filter(|(name, _)| name != "completions").collect();
        assert_eq!(shown, listed.collect::<Vec<_>>());
    }
}
