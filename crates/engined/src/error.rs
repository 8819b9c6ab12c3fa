//! Why an engine cannot be served.

use meridian_engine::ConfigError;
use std::net::SocketAddr;

/// Failures before the first request. What fails later is answered to the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine's settings do not go together.
    #[error("engine: {0}")]
    Config(#[from] ConfigError),
    /// The time scale is not a positive number.
    #[error("time scale {0} is not a positive number: use 1 for real time")]
    TimeScale(f64),
    /// The `name` cannot stand in a header.
    #[error("name {0:?} cannot stand in a header: use letters, digits and dashes")]
    Name(String),
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}; choose another address, or port 0 for any")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}
