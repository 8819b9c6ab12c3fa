//! Why a gateway can't start or serve.

use std::io;
use std::net::SocketAddr;

use meridian_config::cannot_listen;
use meridian_protocol::peer::{Identity, IdentityError};
use meridian_tls::FileError;

/// Why a gateway can't start or serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] meridian_config::ConfigError),
    /// The gateway can't listen on an address.
    #[error("{}", cannot_listen(field, *addr, source))]
    Listen {
        /// The configuration's field.
        field: &'static str,
        /// The address.
        addr: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// Too few file descriptors for the configured limits.
    #[error(
        "limits: {connections} connections and {replicas} replicas need {need} open files, and the hard limit of this process (`ulimit -Hn`) is {allowed}; raise it to {need} (as root `ulimit -n {need}`, or LimitNOFILE={need} in a systemd unit){fits}"
    )]
    Descriptors {
        /// `limits.connections`.
        connections: u64,
        /// `limits.replicas`.
        replicas: u64,
        /// Descriptors needed.
        need: u64,
        /// Descriptors allowed.
        allowed: u64,
        /// Smaller limits that pass, as the end of the message; empty if none do.
        fits: String,
    },
    /// The certificates for peers cannot be used.
    #[error(transparent)]
    Peers(#[from] TlsError),
    /// The certificate for clients cannot be used.
    #[error(transparent)]
    Tls(#[from] FileError),
    /// Several of them.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
    /// The operating system refused something else.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// Why a gateway can't connect to peers.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The certificate is another region's.
    #[error(
        "peers.certificate: is for region `{certified}`, and `region` is `{region}`; use a certificate for this region"
    )]
    Region {
        /// The region in the certificate.
        certified: String,
        /// The region in the configuration.
        region: String,
    },
    /// The certificate was replaced by another gateway's.
    #[error(
        "peers.certificate: is for {certified} now, and this gateway runs as {own}; restart it to change its name"
    )]
    Exchanged {
        /// The name in the certificate.
        certified: String,
        /// The name at the start.
        own: String,
    },
    /// No certificate can be made from the secret.
    #[error("peers.secret: no certificate can be made from it: {0}; use certificates")]
    Secret(String),
    /// The host's name is not a gateway's.
    #[error(
        "peers.name: is missing, and the host's name `{0}` does not start with a letter or has other characters than letters, digits and hyphens; set peers.name"
    )]
    Host(String),
    /// A configured peer is this gateway itself.
    #[error("peers.gateways: {0} is this gateway itself; remove it")]
    Itself(Identity),
    /// An invalid name.
    #[error("peers.gateways: {0}")]
    Name(#[from] IdentityError),
}
