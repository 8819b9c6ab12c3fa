//! Suspended processes: they do not answer, and no error reports it.
//!
//! Connections of a suspended process stay open, and messages to it wait in its sockets. Others
//! notice through timeouts: a gateway by probes, a peer by missing digests, a client by its
//! patience, the control plane by an expired lease. A gateway then retries requests without a first
//! byte elsewhere at once, and breaks off answers in progress after a grace period, as the real one
//! does. A process that resumes reads its pending messages, first of all which clients have
//! disconnected.

use meridian_base::{Duration, RequestId, Time};

use crate::event::Event;
use crate::network::CONNECT_TIMEOUT;

/// How long a probe waits for its answer.
pub(crate) const PROBE_TIMEOUT: Duration = CONNECT_TIMEOUT;

/// Messages pending in the sockets of a suspended process.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) since: Time,
    /// The messages, in order of arrival.
    pub(crate) waiting: Vec<Event>,
    /// Requests that have been abandoned; at a replica by their engine's ids.
    pub(crate) hung_up: Vec<RequestId>,
}

impl Stopped {
    pub(crate) fn new(since: Time) -> Stopped {
        Stopped { since, waiting: Vec::new(), hung_up: Vec::new() }
    }
}
