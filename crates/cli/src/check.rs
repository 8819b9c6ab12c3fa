//! `meridian check` and `meridian config print`

mod pairs;

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

#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    args: Args,
    /// Also ask the prefill and decode replicas for their versions, and for the KV of one prompt
    #[arg(long)]
    ask_replicas: bool,
}

/// Reports every problem that would make a start fail or limit the process. Only a start shows
/// whether the addresses are free, because a running process holds its own.
pub(crate) fn run(check: &Check) -> anyhow::Result<()> {
    let Check { args, ask_replicas } = check;
    let file = ConfigFile::read(&args.config)?;
    let checked = if Control::is_in(&file.yaml) {
        let config = Control::examine(&file.yaml, meridian_control::serve::check);
        config.map(|config| format!("control plane, store {}", config.store.display()))
    } else {
        let config = Gateway::examine(&file.yaml, |config| {
            let found = meridian_gateway::check(config);
            match *ask_replicas && found.is_empty() {
                true => pairs::problems(config),
                false => found,
            }
        });
        config.map(|c| format!("region {}, {}", c.region, replicas(&c)))
    };
    let what = checked.map_err(|error| file.refused(&error.problems))?;
    let shown = args.config.display();
    println!("{shown} is valid: {what}. Only a start shows whether its addresses are free.");
    Ok(())
}

/// The replicas that the gateway starts with.
fn replicas(config: &Gateway) -> String {
    let learns = !config.discovery.is_empty() || config.control.is_some();
    match config.replicas.len() {
        0 if !learns && config.peers.is_none() => {
            "no replicas, so it refuses every request; list them in `replicas` or `discovery`"
                .into()
        }
        1 => "1 replica".into(),
        n => format!("{n} replicas"),
    }
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
