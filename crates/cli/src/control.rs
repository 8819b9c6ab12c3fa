//! `meridian control`: the registry of a fleet as a process.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use meridian_wire::config::Control;

use crate::{gateway, hangup, logs};

/// Keeps the registry of a fleet: replicas, gateways, regions and their policies; docs/control.md
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration, print it with its defaults written out, and end
    #[arg(long)]
    check: bool,
    /// How log lines look
    #[arg(long, value_enum, default_value_t)]
    log_format: logs::Format,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the configuration cannot work, the store can't be opened, or an address be listened on.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.config.display();
    let yaml =
        std::fs::read_to_string(&args.config).with_context(|| format!("cannot read {path}"))?;
    let config =
        Control::read(&yaml).with_context(|| format!("{path} is no working configuration"))?;
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
        let file = args.config.is_file().then(|| args.config.clone());
        let given = meridian_control::serve::Given { config, file, reload };
        let served = meridian_control::serve::serve(given, announce, gateway::stopped()).await;
        served.map_err(Into::into)
    })
}

/// The line that programs wait for.
fn announce(ready: meridian_control::serve::Ready) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading any more; serving goes on.
    let scheme = if ready.tls { "https" } else { "http" };
    let _ = writeln!(out, "admin on {scheme}://{}", ready.admin).and_then(|()| out.flush());
}
