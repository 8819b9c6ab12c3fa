//! Logs go to stderr, as text or JSON, without prompts. Only terminals get colours, unless
//! `NO_COLOR` is set (<https://no-color.org>).

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The filter without `MERIDIAN_LOG`. Warnings of AWS's SDK contain whole responses; the control plane
/// logs its failures itself, and a gateway those of Kubernetes' clients. rustls warns of every client that
/// connects by IP address.
const USUAL: &str = "info,aws_config=error,kube_client=off,kube_runtime=off,rustls=error";

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Format {
    /// Text for terminals.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `MERIDIAN_LOG` overrides the level (`debug`, `meridian_gateway=trace`).
pub fn start(format: Format) {
    let filter = EnvFilter::try_from_env("MERIDIAN_LOG").unwrap_or_else(|_| EnvFilter::new(USUAL));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(has_colours());
    match format {
        Format::Text => logs.init(),
        Format::Json => logs.json().init(),
    }
}

fn has_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !unwanted
}
