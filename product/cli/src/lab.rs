//! The laboratory: commands that start fleets on this machine, simulate, benchmark and plan.
//!
//! Together they need the simulator, the planner and the engine model, which are more than half of
//! the build. With `--no-default-features`, the binary has only the commands of a real fleet.

mod bench;
mod calibrate;
mod chaos;
mod engine;
mod experiment;
mod outputs;
mod plan;
mod up;
mod wan;
mod what_if;
mod workload;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
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
    /// Emulate the WAN between regions on one machine; see docs/wan.md
    #[command(hide = true)]
    Wan(wan::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
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
    }
}
