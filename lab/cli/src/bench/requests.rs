//! The options of single requests, and of the client that sends them.

use std::time::Duration;

use meridian_tools::load::Options;
use tokio::runtime::{Builder, Runtime};

use super::seconds;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct Requests {
    /// Request whole answers instead of streams
    #[arg(long)]
    no_stream: bool,
    /// Do not request usage in streams
    #[arg(long)]
    no_usage: bool,
    /// Header for the session's key; "none" for no header
    #[arg(long, default_value = "x-session-id")]
    session_header: String,
    /// Share of requests that their client cancels
    #[arg(long, default_value_t = 0.0)]
    abort_share: f64,
    /// Longest time until a client cancels
    #[arg(long, default_value = "2s", value_parser = seconds)]
    abort_within: Duration,
    /// Timeout of a request
    #[arg(long, default_value = "120s", value_parser = seconds)]
    timeout: Duration,
    /// Timeout of a connect
    #[arg(long, default_value = "5s", value_parser = seconds)]
    connect_timeout: Duration,
    /// Longest wait for running requests at the end
    #[arg(long, default_value = "30s", value_parser = seconds)]
    drain: Duration,
    /// Most programs at a time in an open loop
    #[arg(long, default_value_t = 10_000)]
    max_programs: usize,
    /// Threads
    #[arg(long, default_value_t = 1)]
    pub(super) threads: usize,
}

impl Requests {
    /// Sets the options of requests.
    pub(super) fn set(self, options: &mut Options) {
        options.stream = !self.no_stream;
        options.include_usage = !self.no_usage;
        options.session_header = Some(self.session_header).filter(|name| name != "none");
        options.abort_share = self.abort_share;
        options.abort_within = self.abort_within;
        options.timeout = self.timeout;
        options.connect_timeout = self.connect_timeout;
        options.drain = self.drain;
        options.max_programs = self.max_programs;
    }
}

/// A runtime with this many threads.
pub(super) fn runtime(threads: usize) -> anyhow::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        n => {
            let mut many = Builder::new_multi_thread();
            many.worker_threads(n);
            many
        }
    };
    Ok(builder.enable_all().build()?)
}

/// Resolves at SIGTERM or Ctrl-C.
pub(super) fn stop() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
