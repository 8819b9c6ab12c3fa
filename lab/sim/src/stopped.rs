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
    since: Time,
    /// The messages, in order of arrival.
    waiting: Vec<Event>,
    /// Requests that have been abandoned; at a replica by their engine's ids.
    hung_up: Vec<RequestId>,
}

/// What a process finds when it resumes.
#[derive(Debug)]
pub(crate) struct Resumed {
    /// How long it was suspended.
    pub(crate) after: Duration,
    /// Requests that were abandoned meanwhile, in order: it reads of these first.
    pub(crate) hung_up: Vec<RequestId>,
    /// The other messages, in order of arrival.
    pub(crate) waiting: Vec<Event>,
}

impl Stopped {
    /// A process is suspended from `since` on.
    pub(crate) fn new(since: Time) -> Stopped {
        Stopped { since, waiting: Vec::new(), hung_up: Vec::new() }
    }

    /// Since when; this also tells one suspension of a process from another.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// For how long, at `now`.
    pub(crate) fn time(&self, now: Time) -> Duration {
        assert!(now >= self.since, "a process suspended at {:?} is asked at {now:?}", self.since);
        now.since(self.since)
    }

    /// Keeps a message that arrives.
    pub(crate) fn keep(&mut self, message: Event) {
        self.waiting.push(message);
    }

    /// Keeps that a request was abandoned.
    pub(crate) fn hang_up(&mut self, id: RequestId) {
        self.hung_up.push(id);
    }

    /// The process resumes: it gets everything, once.
    pub(crate) fn resume(self, now: Time) -> Resumed {
        let after = self.time(now);
        Resumed { after, hung_up: self.hung_up, waiting: self.waiting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A process that resumes gets its messages in the order in which they arrived.
    #[test]
    fn messages_wait_in_order() {
        let mut stopped = Stopped::new(Time::from_millis(5));
        assert_eq!(stopped.time(Time::from_millis(7)), Duration::from_millis(2));
        stopped.keep(Event::Scale);
        stopped.hang_up(RequestId(2));
        stopped.keep(Event::Sample);
        stopped.hang_up(RequestId(1));
        let resumed = stopped.resume(Time::from_millis(8));
        assert_eq!(resumed.after, Duration::from_millis(3));
        assert_eq!(resumed.hung_up, [RequestId(2), RequestId(1)]);
        assert!(matches!(resumed.waiting[..], [Event::Scale, Event::Sample]));
    }

    // No process resumes before it was suspended.
    #[test]
    #[should_panic(expected = "suspended at")]
    fn time_does_not_run_backwards() {
        Stopped::new(Time::from_millis(5)).resume(Time::from_millis(4));
    }
}
