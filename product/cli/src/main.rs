//! `meridian`: the binary with all commands.

mod admin;
mod certs;
mod check;
mod config_file;
mod control;
mod engines;
mod explain;
mod flow;
mod gateway;
mod hangup;
mod http;
mod import;
mod intervals;
#[cfg(feature = "lab")]
mod lab;
mod logs;
mod man;
mod policies;
mod registry;
mod service;
mod tenant_key;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Gateway for self-hosted LLMs: routes OpenAI requests to vLLM, SGLang, llama.cpp and TGI replicas
#[derive(Parser)]
#[command(name = "meridian", version = VERSION, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MERIDIAN_COMMIT"), ")");

#[derive(Subcommand)]
enum Command {
    /// Serve one region: an OpenAI-compatible endpoint in front of its replicas
    Gateway(gateway::Args),
    /// Check the configuration of a gateway or a control plane, and the files that it names
    Check(check::Check),
    /// Show a gateway's configuration, or the schema of configuration files
    #[command(subcommand)]
    Config(check::Show),
    Import(import::Args),
    /// Explain why a request went to its replica
    Explain(explain::Args),
    Intervals(intervals::Args),
    /// List the routing policies
    Policies(policies::Args),
    /// List the supported inference engines
    Engines(engines::Args),
    /// Make the hash of a tenant's API key
    TenantKey(tenant_key::Args),
    /// Issue and renew the certificates of gateways, control planes and operators
    #[command(subcommand)]
    Certs(certs::Command),
    /// Run the control plane: the registry of a fleet, which its gateways follow
    Control(control::Args),
    /// List and change the replicas of a fleet
    Replicas(registry::Replicas),
    /// List and change the regions of a fleet
    Regions(registry::Regions),
    /// List the running gateways of a fleet
    Gateways(registry::Gateways),
    /// Show and change the policies of a fleet's regions
    Policy(registry::Policies),
    /// Order the network transfers of a prefill/decode cluster
    #[command(subcommand)]
    Flow(flow::Command),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(lab::Command),
    /// Print the completion script of a shell
    Completions(man::Completions),
    /// Write the man pages
    #[command(hide = true)]
    Man(man::Man),
}

fn main() -> std::process::ExitCode {
    // Servers and loads need a file descriptor for each connection; other commands are unaffected.
    meridian_gateway::raise_descriptors();
    let result = match Cli::parse().command {
        Command::Gateway(args) => gateway::run(args),
        Command::Check(args) => check::run(&args),
        Command::Config(show) => check::show(&show),
        Command::Import(args) => import::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Intervals(args) => intervals::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Engines(args) => engines::run(&args),
        Command::TenantKey(args) => tenant_key::run(&args),
        Command::Certs(command) => certs::run(&command),
        Command::Control(args) => control::run(&args),
        Command::Replicas(args) => args.run(),
        Command::Regions(args) => args.run(),
        Command::Gateways(args) => args.run(),
        Command::Policy(args) => args.run(),
        Command::Flow(command) => flow::run(command),
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(command),
        Command::Completions(args) => args.run(Cli::command()),
        Command::Man(args) => args.run(Cli::command()),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) if is_unread(&error) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", whole(&error));
            std::process::ExitCode::FAILURE
        }
    }
}

/// The error and its causes. Many errors print their cause in the middle of their own message, so a
/// cause that was printed is left out.
fn whole(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether the only failure is that the reader of the output closed it, as `| head` does.
fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A cause that its error prints is printed once; one that its error leaves out follows it.
    #[test]
    fn causes_are_printed_once() {
        #[derive(Debug)]
        struct Listen(std::io::Error);
        impl std::fmt::Display for Listen {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "cannot listen: {}; use another address", self.0)
            }
        }
        impl std::error::Error for Listen {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = anyhow::Error::new(Listen(std::io::Error::other("in use")));
        assert_eq!(whole(&error), "cannot listen: in use; use another address");
        assert_eq!(
            whole(&error.context("no start")),
            "no start: cannot listen: in use; use another address"
        );
    }
}
