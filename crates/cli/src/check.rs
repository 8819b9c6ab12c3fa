//! `meridian check` and `meridian config print`

use std::path::PathBuf;

use clap::Subcommand;
use meridian_wire::config::{Control, Gateway};

use crate::config_file::ConfigFile;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configuration file of a gateway or of a control plane
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

/// Reports everything that would make a start fail, or the process do less than it should. Only a
/// start shows whether the addresses are free: a running process holds its own.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = ConfigFile::read(&args.config)?;
    let checked = if Control::is_in(&file.yaml) {
        let config = Control::examine(&file.yaml, meridian_control::serve::check);
        config.map(|config| format!("control plane, store {}", config.store.display()))
    } else {
        let config = Gateway::examine(&file.yaml, meridian_gateway::check);
        config.map(|c| format!("region {}, {} replicas", c.region, c.replicas.len()))
    };
    let what = checked.map_err(|error| file.refused(&error.problems))?;
    let shown = args.config.display();
    println!("{shown} is valid: {what}. Only a start shows whether its addresses are free.");
    Ok(())
}

#[derive(Subcommand)]
pub(crate) enum Show {
    /// Print the configuration in force, with all defaults
    Print(Args),
}

pub(crate) fn show(show: &Show) -> anyhow::Result<()> {
    let Show::Print(args) = show;
    let file = ConfigFile::read(&args.config)?;
    print!("{}", crate::gateway::read(&file)?.print()?);
    Ok(())
}
