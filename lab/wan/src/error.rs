//! Errors of a relay, each with a remedy for the reader.

use std::io;
use std::net::SocketAddr;

/// The result of anything that a relay does.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a relay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not available.
    #[error("{field} {address}: {source}; use a free port of this machine, or 0 for any")]
    Listen {
        /// The name of the setting.
        field: String,
        /// The address given.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A setting is invalid.
    #[error("{field} {value}: {remedy}")]
    Setting {
        /// The name of the setting.
        field: &'static str,
        /// The value given.
        value: String,
        /// The valid values.
        remedy: String,
    },
}
