//! A process that serves from a configuration file until SIGTERM or SIGINT: its options, its one
//! thread, and the signal.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::logs;

#[derive(clap::Args)]
pub struct Options {
    /// Configuration file; `-c` may be left out
    #[arg(short, long, value_name = "FILE", required_unless_present = "file")]
    config: Option<PathBuf>,
    #[arg(value_name = "FILE", conflicts_with = "config", hide = true)]
    file: Option<PathBuf>,
    /// Check the configuration, print it with all defaults, and exit
    #[arg(long)]
    pub check: bool,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    pub log_format: logs::Format,
}

impl Options {
    /// The configuration file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.config.as_ref().or(self.file.as_ref()).expect("clap asks for a file")
    }
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
