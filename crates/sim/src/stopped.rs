//! Processes that are suspended, and go on: nothing of them answers, and no error tells so.
//!
//! Connections of a suspended process stay open, and messages to it wait in its sockets. Others
//! notice by their own clocks: a gateway by probes that time out, a peer by digests that stay away, a
//! client by its patience, the control plane by a lease that runs out. A gateway then takes requests
//! without a byte elsewhere at once, and breaks answers off that have begun after a grace, as the real
//! one does. A process that goes on reads what waits for it, first of all which clients have hung up.

mod suspend;

use meridian_base::{Duration, RequestId, Time};

use crate::event::Event;
use crate::network::CONNECT_TIMEOUT;

/// How long a probe waits for its answer.
pub(crate) const PROBE_TIMEOUT: Duration = CONNECT_TIMEOUT;

/// What waits in the sockets of a suspended process.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) since: Time,
    /// Messages, as they came.
    waiting: Vec<Event>,
    /// Requests that are not waited for any more.
    hung_up: Vec<RequestId>,
}

impl Stopped {
    fn new(since: Time) -> Stopped {
        Stopped { since, waiting: Vec::new(), hung_up: Vec::new() }
    }
}
