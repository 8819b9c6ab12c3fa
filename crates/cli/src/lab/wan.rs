//! `meridian wan`: the emulated WAN between regions that run on one machine.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use meridian_lab::wan::Relay;
use meridian_wire::wan::Wan;

use crate::{gateway, hangup, logs};

/// Relays connections between regions of one machine, as late and as slow as a WAN would
///
/// For try-outs and tests: each byte is held back for the delay of its direction, links are cut,
/// slowed and mended over the admin port. docs/wan.md has the configuration.
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

/// Relays until SIGTERM or SIGINT, then resets what is open.
///
/// # Errors
/// When the configuration cannot work or an address cannot be listened on.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.config.display();
    let yaml =
        std::fs::read_to_string(&args.config).with_context(|| format!("cannot read {path}"))?;
    let config = Wan::read(&yaml).with_context(|| format!("{path} is no working configuration"))?;
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

/// Tells whoever started us that every address is listened on; the state tells the others.
fn announce(admin: SocketAddr) {
    let mut out = std::io::stdout();
    // Nobody may be reading any more; relaying goes on.
    let _ = writeln!(out, "admin on http://{admin}").and_then(|()| out.flush());
}
