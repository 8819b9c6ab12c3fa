//! The laboratory: commands that start fleets on this machine, simulate, benchmark and plan.
//!
//! Together they need the simulator, the planner and the engine model, which is more than half of
//! the build. `--no-default-features` leaves them out; what remains serves a region.

mod bench;
mod calibrate;
mod chaos;
mod engine;
mod experiment;
mod flow;
mod plan;
mod up;
mod wan;
mod workload;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Brings up a region on this machine, with a load to watch
    Up(up::Args),
    /// Breaks a fleet on this machine on purpose, and judges what came of it
    Chaos(chaos::Args),
    /// Runs a model of an inference engine behind vLLM's API
    Engine(engine::Args),
    /// Puts load on a live endpoint and measures it at the client
    Bench(Box<bench::Args>),
    /// Fits a replica's TTFT over the length of its prompts, for a gateway to start from
    Calibrate(calibrate::Args),
    /// Reproduces a published comparison, simulated, with the published figures beside it
    Experiment(experiment::Args),
    /// Simulates which transfer of a prefill cluster goes first
    #[command(subcommand)]
    Flow(flow::Command),
    /// Plans where GPUs go and which collective they use
    Plan(Box<plan::Args>),
    /// Describes, writes and converts workloads and traces
    #[command(subcommand)]
    Workload(workload::Command),
    /// Emulates the WAN between regions of one machine; docs/wan.md
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
        Command::Flow(command) => flow::run(command),
        Command::Plan(args) => plan::run(&args),
        Command::Workload(command) => workload::run(command),
        Command::Wan(args) => wan::run(&args),
    }
}
