//! `meridian`: the one binary.

mod admin;
mod bench;
mod calibrate;
mod certs;
mod chaos;
mod check;
mod control;
mod engine;
mod engines;
mod experiment;
mod explain;
mod flow;
mod gateway;
mod hangup;
mod http;
mod logs;
mod plan;
mod policies;
mod registry;
mod tenant_key;
mod up;
mod wan;
mod workload;

use clap::{Parser, Subcommand};

/// The network layer of LLM serving.
#[derive(Parser)]
#[command(name = "meridian", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Brings up a region on this machine, with a load to watch
    Up(up::Args),
    /// Breaks a fleet on this machine on purpose, and judges what came of it
    Chaos(chaos::Args),
    /// Serves one region: an OpenAI-compatible endpoint in front of its replicas
    Gateway(gateway::Args),
    /// Keeps the registry of a fleet, which its gateways follow
    Control(control::Args),
    /// Lists and changes the replicas of a fleet
    Replicas(registry::Replicas),
    /// Lists and changes the regions of a fleet
    Regions(registry::Regions),
    /// Lists the gateways of a fleet that live
    Gateways(registry::Gateways),
    /// Shows and changes the policies of a fleet's regions
    Policy(registry::Policies),
    /// Checks a gateway's or a control plane's configuration and the files that it names
    Check(check::Args),
    /// Issues and renews the certificates with which gateways know each other
    #[command(subcommand)]
    Certs(certs::Command),
    /// Makes the hash of a tenant's API key
    TenantKey(tenant_key::Args),
    /// Shows a gateway's configuration
    #[command(subcommand)]
    Config(check::Show),
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
    /// Lists the inference engines that gateways know
    Engines(engines::Args),
    /// Lists the routing policies
    Policies(policies::Args),
    /// Describes, writes and converts workloads and traces
    #[command(subcommand)]
    Workload(workload::Command),
    /// Tells why a request went where it did
    Explain(explain::Args),
    /// Emulates the WAN between regions of one machine; docs/wan.md
    #[command(hide = true)]
    Wan(wan::Args),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Up(args) => up::run(args),
        Command::Chaos(args) => chaos::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Control(args) => control::run(&args),
        Command::Replicas(args) => args.run(),
        Command::Regions(args) => args.run(),
        Command::Gateways(args) => args.run(),
        Command::Policy(args) => args.run(),
        Command::Check(args) => check::run(&args),
        Command::Certs(command) => certs::run(&command),
        Command::TenantKey(args) => tenant_key::run(&args),
        Command::Config(show) => check::show(&show),
        Command::Engine(args) => engine::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Flow(command) => flow::run(command),
        Command::Plan(args) => plan::run(&args),
        Command::Engines(args) => engines::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Workload(command) => workload::run(command),
        Command::Explain(args) => explain::run(&args),
        Command::Wan(args) => wan::run(&args),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) if is_unread(&error) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Whether all that failed is that nobody reads the output any more, as behind `| head`.
fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
