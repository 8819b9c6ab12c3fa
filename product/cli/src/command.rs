//! The command line of `meridian`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use meridian_routing::policy::Spec;

use crate::{
    VERSION, certs, check, control, ending, engines, explain, gateway, intervals, laboratory, man,
    policies, registry, tenant_key,
};

/// Gateway for self-hosted LLMs: routes OpenAI requests to vLLM, SGLang, llama.cpp and TGI replicas
#[derive(Parser)]
#[command(name = "meridian", version = VERSION, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve one region: an OpenAI-compatible endpoint in front of its replicas
    Gateway(gateway::Args),
    /// Check the configuration of a gateway or a control plane, and the files that it names
    Check(check::Check),
    /// Show a gateway's configuration, or the schema of configuration files
    #[command(subcommand)]
    Config(check::Show),
    Import(meridian_import::Args),
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
    /// Print the completion script of a shell
    Completions(man::Completions),
    /// Write the man pages
    #[command(hide = true)]
    Man(man::Man),
}

/// The command line with the laboratory's commands, of which it has names and descriptions only.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command().subcommands(
        laboratory::COMMANDS
            .iter()
            .map(|(name, about)| clap::Command::new(*name).about(*about).disable_help_flag(true)),
    )
}

/// Policies that a configuration may name.
pub type Policies = &'static [&'static Spec];

/// The policies of a program with `further` ones, which come with the product's own; without, only those.
fn policies_with(further: Policies) -> Policies {
    if further.is_empty() { meridian_routing::policy::ALL } else { further }
}

/// Runs the command of this process's arguments. The product has its own policies, and `further` ones of other crates.
#[must_use]
pub fn run(further: Policies) -> ExitCode {
    // Servers need a file descriptor for each connection; other commands are unaffected.
    meridian_gateway::raise_descriptors();
    meridian_config::policies::install(policies_with(further));
    let args: Vec<OsString> = std::env::args_os().collect();
    if laboratory::is_asked(&args) {
        return ending::status(Err(laboratory::run_instead(&args)));
    }
    let matches = command().get_matches_from(&args);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    ending::status(match cli.command {
        Command::Gateway(args) => gateway::run(args),
        Command::Check(args) => check::run(&args),
        Command::Config(show) => check::show(&show),
        Command::Import(args) => meridian_import::run(&args),
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
        Command::Completions(args) => args.run(command()),
        Command::Man(args) => args.run(command()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A build without the policies of other routers starts, with the product's own.
    #[test]
    fn none_further_leaves_ours() {
        assert!(policies_with(&[]).iter().any(|spec| spec.name == "meridian"));
    }
}
