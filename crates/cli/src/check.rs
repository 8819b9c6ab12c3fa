//! `meridian check` and `meridian config print`

use std::path::PathBuf;

use clap::Subcommand;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = crate::gateway::read(&args.config)?;
    println!(
        "{} is valid: region {}, {} replicas",
        args.config.display(),
        config.region,
        config.replicas.len()
    );
    Ok(())
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
