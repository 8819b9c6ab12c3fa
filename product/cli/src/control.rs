//! `meridian control`: the registry of a fleet as a process.

use std::io::Write;

use meridian_config::Control;

use crate::config_file::ConfigFile;
use crate::service::{self, Options};
use crate::{hangup, logs, registry};

/// Run the control plane: the registry of a fleet, which its gateways follow; see docs/control.md
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Option<Options>,
}

#[derive(clap::Subcommand)]
enum Command {
    Export(registry::Export),
    Import(registry::Import),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the configuration is invalid, the store can't be opened, or the address is in use.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.command, &args.options) {
        (Some(Command::Export(export)), _) => export.run(),
        (Some(Command::Import(import)), _) => import.run(),
        (None, Some(options)) => serve(options),
        (None, None) => unreachable!("clap asks for a file"),
    }
}

fn serve(options: &Options) -> anyhow::Result<()> {
    let file = ConfigFile::read(options.path())?;
    let config = Control::read(&file.yaml).map_err(|error| file.refused(&error.problems))?;
    if options.check {
        print!("{}", config.print()?);
        return Ok(());
    }
    logs::start(options.log_format);
    service::runtime()?.block_on(async {
        let reload = hangup::reloads()?;
        // A pipe can be read only once, so there is no file to reload.
        let path = options.path().is_file().then(|| options.path().to_owned());
        let given = meridian_control::serve::Given { config, file: path, reload };
        let served = meridian_control::serve::serve(given, announce, service::stopped()).await;
        served.map_err(|error| file.cannot_start(&error.to_string()))
    })
}

/// Prints the address, in a line that scripts wait for.
fn announce(ready: meridian_control::serve::Ready) {
    let mut out = std::io::stdout().lock();
    // The reader may have closed the pipe; the control plane keeps running.
    let scheme = if ready.tls { "https" } else { "http" };
    let _ = writeln!(out, "admin on {scheme}://{}", ready.admin).and_then(|()| out.flush());
}
