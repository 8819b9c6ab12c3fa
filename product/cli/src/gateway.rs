//! `meridian gateway`

use std::io::Write;

use meridian_config::Gateway;
use meridian_gateway::{Given, Ready};

use crate::config_file::{ConfigFile, NamedFile};
use crate::{COMMIT, hangup, logs, service};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    file: NamedFile,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: logs::Format,
}

pub(crate) fn read(file: &ConfigFile) -> anyhow::Result<Gateway> {
    Gateway::read(&file.yaml).map_err(|error| file.refused(&error.problems))
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let path = args.file.path();
    let file = ConfigFile::read(path)?;
    let config = read(&file)?;
    logs::start(args.log_format);
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if config.threads > 0 { config.threads } else { cores() };
    let runtime = service::runtime()?;
    let served = runtime.block_on(async {
        let reload = hangup::reloads()?;
        // A pipe can be read only once, so there is no file to reload.
        let path = path.is_file().then(|| path.to_owned());
        let commit = COMMIT.to_owned();
        let given = Given { config, file: path, reload, commit };
        let served = meridian_gateway::serve(given, threads, announce, service::stopped()).await;
        served.map_err(|error| file.cannot_start(&error.to_string()))
    });
    // A blocked read of a file does not keep the process from ending.
    runtime.shutdown_background();
    served
}

/// Prints the addresses, in lines that scripts wait for.
fn announce(ready: Ready) {
    let mut out = std::io::stdout().lock();
    // The reader may have closed the pipe; the gateway keeps running.
    let scheme = if ready.tls { "https" } else { "http" };
    let admin_scheme = if ready.admin_tls { "https" } else { "http" };
    let Ready { listen, admin, .. } = ready;
    let _ = writeln!(out, "listening on {scheme}://{listen}\nadmin on {admin_scheme}://{admin}");
    if let Some(peers) = ready.peers {
        let _ = writeln!(out, "peers on https://{peers}");
    }
    let _ = out.flush();
}
