//! `meridian flow coordinator`: one order for the batches of a cluster.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context as _;
use meridian_flow::{Config, policy};
use tokio::net::TcpListener;

use meridian_cli::{hangup, logs, service};

/// Order the batches of a cluster by the requests of all of its nodes
///
/// Nodes are processes with a KV gate whose settings name this address. Each reports its batches and
/// hears of their order in one message a batch. A node that loses the coordinator keeps its own order. The port has no authentication: keep it inside the cluster's network.
#[derive(Debug, clap::Args)]
pub(crate) struct Coordinator {
    /// Address to listen on; port 0 is any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: logs::Format,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the address is in use.
pub(super) fn run(args: &Coordinator) -> anyhow::Result<()> {
    logs::start(args.log_format);
    // The other policies order each flow by itself, so a coordinator has nothing to add to them.
    let config = Config::new(policy::find("mfs").context("the policy mfs is missing")?);
    service::runtime()?.block_on(async {
        hangup::survive("the flow coordinator")?;
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener
            .with_context(|| format!("cannot listen on {}; use another --listen", args.listen))?;
        let address = listener.local_addr()?;
        let mut out = std::io::stdout().lock();
        // The reader may have closed the pipe; the coordinator keeps running.
        let _ = writeln!(out, "flow coordinator on {address}").and_then(|()| out.flush());
        drop(out);
        Ok(meridian_coordinator::serve(listener, config, service::stopped()).await?)
    })
}
