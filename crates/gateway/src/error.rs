//! Errors of the gateway, with the two questions that decide what to do about one: whose fault,
//! and is it worth another try.

use std::io;
use std::net::SocketAddr;

use meridian_routing::Outcome;

/// What keeps a gateway from starting or serving.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot work.
    #[error("{0}")]
    Config(#[from] meridian_wire::config::ConfigError),
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {addr} ({field}): {source}; use another address, or stop what holds it"
    )]
    Listen {
        /// The configuration's field.
        field: &'static str,
        /// The address.
        addr: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Too few file descriptors for the configured limits.
    #[error(
        "limits.connections: {connections} connections need {need} file descriptors, {have} are allowed; raise `ulimit -n` or lower limits.connections to {fits}"
    )]
    Descriptors {
        /// Configured.
        connections: usize,
        /// Needed.
        need: u64,
        /// Allowed.
        have: u64,
        /// Connections that would fit.
        fits: u64,
    },
    /// The certificates for peers cannot be used.
    #[error(transparent)]
    Peers(#[from] crate::peers::tls::TlsError),
    /// The certificate for clients cannot be used.
    #[error(transparent)]
    Tls(#[from] meridian_tls::FileError),
    /// Several of them.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
    /// The operating system refused something else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Whose fault a failed attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The engine refuses: full.
    Full,
    /// The replica's.
    Replica,
    /// The engine answered with a failure: the replica's or the request's.
    Engine,
    /// The connection ended under the request: the replica's, or the request's that ended it.
    Died,
    /// The replica's; it has nothing of the request, or nothing more to say.
    Unreached,
    /// The peer refuses: full, or it does not serve this.
    PeerFull,
    /// The peer has no room for it now.
    PeerNoRoom,
    /// The peer's, or the way's to it.
    Peer,
    /// The connections of two engines ended under the request at the peer.
    PeerDied,
}

/// A failed attempt at a replica or a peer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct AttemptError {
    pub(crate) fault: Source,
    /// For logs and pages.
    pub(crate) message: String,
}

impl AttemptError {
    pub(crate) fn of(fault: Source, message: impl Into<String>) -> AttemptError {
        AttemptError { fault, message: message.into() }
    }

    pub(crate) fn replica(message: impl Into<String>) -> AttemptError {
        AttemptError::of(Source::Replica, message)
    }

    pub(crate) fn peer(message: impl Into<String>) -> AttemptError {
        AttemptError::of(Source::Peer, message)
    }

    /// What the machine is told of it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.fault {
            Source::Full | Source::PeerFull => Outcome::Full,
            Source::PeerNoRoom => Outcome::NoRoom,
            Source::Replica | Source::Peer => Outcome::ReplicaError,
            Source::Engine => Outcome::EngineError,
            Source::Died | Source::PeerDied => Outcome::Died,
            Source::Unreached => Outcome::Unreached,
        }
    }
}
