//! `meridian bench`: loads an OpenAI endpoint and reports the answers.

mod compare;
mod contents;
mod load;
mod output;
mod progress;
mod replay;
mod requests;
mod sweep;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use meridian_perf::{
    control, decision, digests, flowspeed, forward, mock, planet, planspeed, race, siblings,
    simspeed,
};
pub(crate) use meridian_tools::load::seconds;

use self::load::Load;

/// Load an OpenAI endpoint and measure at the client
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Find the most requests per second that an endpoint serves within an objective
    Sweep(Box<sweep::Sweep>),
    /// Replay a journal or a trace against an endpoint, at its own times
    Replay(Box<replay::Replay>),
    /// Compare two runs, metric by metric, with intervals
    Compare(compare::Compare),
    /// Run a replica that answers immediately
    #[command(hide = true)]
    Mock {
        /// Address to listen on
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: String,
        /// Play a prefill replica: one token, and the parameters of vLLM's NixlConnector
        #[arg(long)]
        prefill: bool,
        /// Certificate, for https
        #[arg(long, value_name = "FILE", requires = "key")]
        certificate: Option<PathBuf>,
        /// The certificate's key
        #[arg(long, value_name = "FILE", requires = "certificate")]
        key: Option<PathBuf>,
    },
    /// Compare this gateway with others, side by side: latency, rate, CPU time, memory
    Gateway(race::Options),
    /// Count what a request costs the gateway, beside nginx: CPU time, system calls, allocations,
    /// copies, instructions
    Costs(race::costs::Options),
    /// Measure what open streams, idle connections and slow readers cost the gateway
    Streams(race::streams::Options),
    /// Measure the cost of a decision: hashing, matching, deciding, memory of the index
    Decision(decision::Options),
    /// Measure the cost of a decision of the flow machine
    Flow(flowspeed::Options),
    /// Measure time and memory of planning 9,600 GPUs
    Plan(planspeed::Options),
    /// Measure time and memory of a simulated request, next to a simulator in Python
    Sim(simspeed::Options),
    /// Measure time and memory of a simulated request on a planet of regions
    Planet(planet::Options),
    /// Measure the cost of a forward beyond the round trip, over kernel TCP between namespaces
    Forward(forward::Options),
    /// Measure the cost of digests: share of a core, bytes per second
    Digests(digests::Options),
    /// Measure what a request costs gateways of one region that tell each other of it
    Siblings(siblings::Options),
    /// Measure the cost of a control plane on a file, and of one on etcd
    Control(control::Options),
    /// Make two network devices with a delay between them
    #[command(hide = true)]
    Bridge {
        /// First device
        here: String,
        /// Second device
        there: String,
        /// Delay in one direction
        #[arg(long, value_parser = seconds)]
        delay: Duration,
    },
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        None => load::run(args.load),
        Some(Command::Sweep(args)) => sweep::run(*args),
        Some(Command::Replay(args)) => replay::run(*args),
        Some(Command::Compare(args)) => compare::run(args),
        Some(Command::Mock { listen, prefill, certificate, key }) => {
            let role = if prefill { mock::Role::Prefill } else { mock::Role::Answers };
            let tls = certificate.zip(key).map(|(certificate, key)| mock::Tls { certificate, key });
            mock::run(&listen, role, tls)
        }
        Some(Command::Bridge { here, there, delay }) => {
            forward::bridge::run([&here, &there], delay)
        }
        Some(Command::Gateway(options)) => race::run(&options),
        Some(Command::Costs(options)) => race::costs::run(&options),
        Some(Command::Streams(options)) => race::streams::run(&options),
        Some(Command::Decision(options)) => decision::run(&options),
        Some(Command::Flow(options)) => flowspeed::run(&options),
        Some(Command::Plan(options)) => planspeed::run(&options),
        Some(Command::Sim(options)) => simspeed::run(&options),
        Some(Command::Planet(options)) => planet::run(&options),
        Some(Command::Forward(options)) => forward::run(&options),
        Some(Command::Digests(options)) => digests::run(&options),
        Some(Command::Siblings(options)) => siblings::run(&options),
        Some(Command::Control(options)) => control::run(&options),
    }
}
