//! How decisions end, for the explain endpoint.

use crate::request::Outcome;
use crate::why::RejectWhy;

/// How a decision ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The attempt ended with this outcome.
    Attempt(Outcome),
    /// The prefill leg of a pair failed with this outcome, before the answer started.
    Prefill(Outcome),
    /// The request was queued, and a later decision sent it.
    Released,
    /// The gateway refused the request.
    Refused(RejectWhy),
    /// The client disconnected.
    Cancelled,
}

impl Ending {
    /// A stable word for the explain endpoint.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Ending::Attempt(outcome) | Ending::Prefill(outcome) => match outcome {
                Outcome::Done => "done",
                Outcome::ClientError => "client_error",
                Outcome::NotServed => "not_served",
                Outcome::NoKv => "no_kv",
                Outcome::Full => "full",
                Outcome::NoRoom => "no_room",
                Outcome::EngineError => "engine_error",
                Outcome::ReplicaError => "replica_error",
                Outcome::Died => "died",
                Outcome::Unreached => "unreached",
            },
            Ending::Released => "released",
            Ending::Refused(_) => "refused",
            Ending::Cancelled => "cancelled",
        }
    }
}
