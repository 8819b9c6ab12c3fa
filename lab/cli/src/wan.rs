//! `meridian wan`: the emulated WAN between regions that run on one machine.

use std::io::Write;
use std::net::SocketAddr;

use meridian_wan::Relay;
use meridian_wan::config::Wan;

use meridian_cli::config_file::ConfigFile;
use meridian_cli::service::{self, Options};
use meridian_cli::{hangup, logs};

/// Relay connections between regions on one machine with the delay and the rate of a WAN
///
/// For trials and tests: the relay delays each byte, and its admin port cuts, slows and restores
/// links. lab/docs/up-and-chaos.md describes the configuration.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
}

/// Relays until SIGTERM or SIGINT, then resets open connections.
///
/// # Errors
/// When the configuration cannot work or an address cannot be listened on.
pub(crate) fn run(Args { options }: &Args) -> anyhow::Result<()> {
    let file = ConfigFile::read(options.path())?;
    let config = Wan::read(&file.yaml).map_err(|error| file.refused(&error.problems))?;
    if options.check {
        print!("{}", config.print()?);
        return Ok(());
    }
    logs::start(options.log_format);
    service::runtime()?.block_on(async {
        hangup::survive("the WAN relay")?;
        let relay = Relay::start(&config).await?;
        announce(relay.admin());
        service::stopped().await;
        relay.stop().await;
        Ok(())
    })
}

/// Prints the admin address once all ports are open. `/admin/wan` lists the others.
fn announce(admin: SocketAddr) {
    let mut out = std::io::stdout();
    // The reader may have closed the pipe; the relay keeps running.
    let _ = writeln!(out, "admin on http://{admin}").and_then(|()| out.flush());
}
