//! `meridian control`: the registry of a fleet as a process.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use meridian_wire::config::Control;

use crate::config_file::ConfigFile;
use crate::{gateway, hangup, logs};

/// Run the control plane: the registry of a fleet, which its gateways follow; see docs/control.md
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration, print it with all defaults, and exit
    #[arg(long)]
    check: bool,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: logs::Format,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the configuration is invalid, the store can't be opened, or the address is in use.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = ConfigFile::read(&args.config)?;
    let config = Control::read(&file.yaml).map_err(|error| file.refused(&error.problems))?;
    if args.check {
        print!("{}", config.print()?);
        return Ok(());
    }
    logs::start(args.log_format);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let reload = hangup::reloads()?;
        // A pipe is read once.
        let path = args.config.is_file().then(|| args.config.clone());
        let given = meridian_control::serve::Given { config, file: path, reload };
        let served = meridian_control::serve::serve(given, announce, gateway::stopped()).await;
        served.map_err(|error| file.cannot_start(&error.to_string()))
    })
}

/// The line that programs wait for.
fn announce(ready: meridian_control::serve::Ready) {
    let mut out = std::io::stdout().lock();
    // The reader may have closed the pipe; the control plane serves on.
    let scheme = if ready.tls { "https" } else { "http" };
    let _ = writeln!(out, "admin on {scheme}://{}", ready.admin).and_then(|()| out.flush());
}
