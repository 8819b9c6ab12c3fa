//! A process that serves from a configuration file until SIGTERM or SIGINT: its options, its one
//! thread, and the signal.

use std::path::PathBuf;

use anyhow::Context;

use crate::logs;

#[derive(clap::Args)]
pub struct Options {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the configuration, print it with all defaults, and exit
    #[arg(long)]
    pub check: bool,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    pub log_format: logs::Format,
}

/// The runtime of a process that needs one thread.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("cannot start the runtime")
}

/// Returns on SIGTERM or Ctrl-C.
pub async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).expect("a runtime with signals is running");
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
