//! `meridian wan`: the emulated WAN between regions that run on one machine.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use meridian_lab::wan::Relay;
use meridian_wire::wan::Wan;

use crate::config_file::ConfigFile;
use crate::{gateway, hangup, logs};

/// Relay connections between regions on one machine with the delay and the rate of a WAN
///
/// For trials and tests: the relay delays each byte, and its admin port cuts, slows and restores
/// links. docs/wan.md describes the configuration.
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

/// Relays until SIGTERM or SIGINT, then resets what is open.
///
/// # Errors
/// When the configuration cannot work or an address cannot be listened on.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = ConfigFile::read(&args.config)?;
    let config = Wan::read(&file.yaml).map_err(|error| file.refused(&error.problems))?;
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
        hangup::survive("the WAN relay")?;
        let relay = Relay::start(&config).await?;
        announce(relay.admin());
        gateway::stopped().await;
        relay.stop().await;
        Ok(())
    })
}

/// Prints the address; the state has the others. Every port is open now.
fn announce(admin: SocketAddr) {
    let mut out = std::io::stdout();
    // The reader may have closed the pipe; the relay keeps running.
    let _ = writeln!(out, "admin on http://{admin}").and_then(|()| out.flush());
}
