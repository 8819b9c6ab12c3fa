//! `meridian gateway`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use meridian_gateway::{Given, Ready};
use meridian_wire::config::Gateway;

use crate::{hangup, logs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// How log lines look
    #[arg(long, value_enum, default_value_t)]
    log_format: logs::Format,
}

pub(crate) fn read(path: &PathBuf) -> anyhow::Result<Gateway> {
    let yaml =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Gateway::read(&yaml).with_context(|| format!("{} is no working configuration", path.display()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let config = read(&args.config)?;
    logs::start(args.log_format);
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if config.threads > 0 { config.threads } else { cores() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let reload = hangup::reloads()?;
        // A pipe is read once.
        let file = args.config.is_file().then_some(args.config);
        let given = Given { config, file, reload };
        meridian_gateway::serve(given, threads, announce, stopped()).await.map_err(Into::into)
    });
    // A read of a file that never ends does not keep the process.
    runtime.shutdown_background();
    served
}

/// Lines that programs wait for.
fn announce(ready: Ready) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading any more; serving goes on.
    let scheme = if ready.tls { "https" } else { "http" };
    let admin_scheme = if ready.admin_tls { "https" } else { "http" };
    let Ready { listen, admin, .. } = ready;
    let _ = writeln!(out, "listening on {scheme}://{listen}\nadmin on {admin_scheme}://{admin}");
    if let Some(peers) = ready.peers {
        let _ = writeln!(out, "peers on https://{peers}");
    }
    let _ = out.flush();
}

/// SIGTERM or Ctrl-C.
pub(crate) async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).expect("a runtime with signals is running");
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
