//! Logs: to stderr, structured where asked, without prompts.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `MERIDIAN_LOG` overrides the level (`debug`, `meridian_gateway=trace`).
pub(crate) fn start(format: Format) {
    let filter = EnvFilter::try_from_env("MERIDIAN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => logs.init(),
        Format::Json => logs.json().init(),
    }
}
