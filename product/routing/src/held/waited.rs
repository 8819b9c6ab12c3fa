//! Since when a request waits, and until when it may.
//!
//! Its age decides its turn. The time until it is refused may begin later: a request that waited
//! minutes for the first replica of its model has the usual time from then on. It would otherwise be
//! refused because that replica is full at once.

use meridian_base::{Duration, Time};

/// The times of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    /// When it arrived: of equals, the oldest goes first.
    pub(crate) since: Time,
    /// From when `max_wait` counts: its arrival, or later if no replica took requests for its model
    /// until then.
    pub(crate) from: Time,
}

impl Waited {
    /// Of a request whose model has replicas.
    #[cfg(test)]
    pub(crate) fn since(arrived: Time) -> Waited {
        Waited { since: arrived, from: arrived }
    }

    /// Until when it may wait for a replica of a model that is scaled to zero.
    ///
    /// If one came meanwhile and left, the rest of the usual time counts at least. That time begins
    /// only once, so replicas that come and go make no request wait forever.
    pub(super) fn until(&self, scale_from_zero: Duration, max_wait: Duration) -> Time {
        let until = self.since + scale_from_zero;
        match self.from > self.since {
            true => until.max(self.from + max_wait),
            false => until,
        }
    }
}

/// When a queued request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// `max_wait` after this time.
    After(Time),
    /// At this time.
    At(Time),
}
