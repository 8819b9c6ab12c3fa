//! Failed attempts: which side caused one, and the outcome to report to the routing machine, which
//! decides about a retry.

use meridian_routing::Outcome;

use crate::cause;

/// The cause of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The engine refuses because it is full.
    Full,
    /// The replica.
    Replica,
    /// The engine answered with an error: caused by the replica or the request.
    Engine,
    /// The engine does not serve the model, although it listed it.
    NotServed,
    /// The connection ended during the request: caused by the replica, or by a request that crashed
    /// it.
    Died,
    /// The replica; it never received the request, or has nothing more to send.
    Unreached,
    /// The peer refuses: it is full, or does not serve this.
    PeerFull,
    /// The peer has no free capacity for it now.
    PeerNoRoom,
    /// The peer, or the connection to it.
    Peer,
    /// At the peer, the connections of two engines ended during the request.
    PeerDied,
}

/// A failed attempt at a replica or a peer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct AttemptError {
    pub(crate) fault: Fault,
    /// The cause in one word, for intervals of downtime.
    pub(crate) cause: &'static str,
    /// For logs and pages.
    pub(crate) message: String,
    /// At a peer that could not serve the request, the connection of one engine ended.
    pub(crate) died_there: bool,
}

impl AttemptError {
    pub(crate) fn of(fault: Fault, message: impl Into<String>) -> AttemptError {
        let cause = match fault {
            Fault::Unreached => cause::UNREACHABLE,
            Fault::Died | Fault::PeerDied => cause::RESET,
            _ => cause::FAILED,
        };
        AttemptError { fault, cause, message: message.into(), died_there: false }
    }

    /// The same with a more precise cause.
    pub(crate) fn because(self, cause: &'static str) -> AttemptError {
        AttemptError { cause, ..self }
    }

    pub(crate) fn replica(message: impl Into<String>) -> AttemptError {
        AttemptError::of(Fault::Replica, message)
    }

    pub(crate) fn peer(message: impl Into<String>) -> AttemptError {
        AttemptError::of(Fault::Peer, message)
    }

    /// The outcome to report to the routing machine.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.fault {
            Fault::Full | Fault::PeerFull => Outcome::Full,
            Fault::PeerNoRoom => Outcome::NoRoom,
            Fault::Replica | Fault::Peer => Outcome::ReplicaError,
            Fault::Engine => Outcome::EngineError,
            Fault::NotServed => Outcome::NotServed,
            Fault::Died | Fault::PeerDied => Outcome::Died,
            Fault::Unreached => Outcome::Unreached,
        }
    }
}
