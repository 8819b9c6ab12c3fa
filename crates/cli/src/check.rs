//! `meridian check` and `meridian config print`

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use meridian_wire::config::{Control, Gateway};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration file of a gateway or of a control plane
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

/// Names everything because of which a start would fail, or go on with less than it should. Whether
/// addresses are free is left to the start: a process that runs holds its own.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = args.config.display();
    let yaml =
        std::fs::read_to_string(&args.config).with_context(|| format!("cannot read {file}"))?;
    let none = || format!("{file} is no working configuration");
    let (problems, what) = if Control::is_in(&yaml) {
        let config = Control::parse(&yaml).with_context(none)?;
        let what = format!("control plane, store {}", config.store.display());
        (meridian_control::serve::check(&config), what)
    } else {
        let config = Gateway::parse(&yaml).with_context(none)?;
        let what = format!("region {}, {} replicas", config.region, config.replicas.len());
        (meridian_gateway::check(&config), what)
    };
    if problems.is_empty() {
        println!("{file} is valid: {what}; whether its addresses are free is seen at the start");
        return Ok(());
    }
    bail!("{file} is no working configuration:\n{}", problems.join("\n"))
}

#[derive(Subcommand)]
pub(crate) enum Show {
    /// Prints the configuration in force, defaults written out
    Print(Args),
}

pub(crate) fn show(show: &Show) -> anyhow::Result<()> {
    let Show::Print(args) = show;
    print!("{}", crate::gateway::read(&args.config)?.print()?);
    Ok(())
}
