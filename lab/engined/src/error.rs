//! Why an engine cannot be served.

use meridian_engine::ConfigError;
use meridian_gate::SettingsError;
use std::net::SocketAddr;

/// Failures before the first request. Later failures are answered to the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine's settings are inconsistent.
    #[error("engine: {0}")]
    Config(#[from] ConfigError),
    /// The time scale is not a positive number.
    #[error("time scale {0} is not a positive number: use 1 for real time")]
    TimeScale(f64),
    /// The `name` is not valid in a header.
    #[error("name {0:?} cannot stand in a header: use letters, digits and dashes")]
    Name(String),
    /// A setting of the transfer of KV is out of range.
    #[error("{field} {value}: {remedy}")]
    Transfer {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The order of transfers of KV is not valid.
    #[error("flow policy: {0}")]
    Flow(#[from] SettingsError),
    /// The address is in use or not ours.
    #[error("cannot listen on {address}: {source}; choose another address, or port 0 for any")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
}
