//! Counts of what went to a peer and what came from it, one of each direction for every peer.
//!
//! An attempt is a [`Leg`] from its beginning to its end. Whoever holds it when its client goes
//! away drops it, and that is the end too, so no attempt is counted twice or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meridian_wire::admin::Forwards;

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    begun: AtomicU64,
    ends: [AtomicU64; 5],
    request_bytes: AtomicU64,
    answer_bytes: AtomicU64,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegEnd {
    Done,
    ClientError,
    Refused,
    Failed,
    Cancelled,
}

impl Tally {
    /// An attempt begins, with so many bytes of body.
    pub(crate) fn begin(self: &Arc<Self>, request_bytes: u64) -> Leg {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.request_bytes.fetch_add(request_bytes, Ordering::Relaxed);
        Leg { tally: self.clone(), open: true }
    }

    /// The counts. While attempts begin and end, they are of nearly the same moment.
    pub(crate) fn read(&self) -> Forwards {
        // Ends first: what ends in between was begun before, so nothing is below zero.
        let [done, client_error, refused, failed, cancelled] =
            [0, 1, 2, 3, 4].map(|at: usize| self.ends[at].load(Ordering::Acquire));
        let begun = self.begun.load(Ordering::Acquire);
        Forwards {
            begun,
            done,
            client_error,
            refused,
            failed,
            cancelled,
            in_flight: begun - done - client_error - refused - failed - cancelled,
            request_bytes: self.request_bytes.load(Ordering::Relaxed),
            answer_bytes: self.answer_bytes.load(Ordering::Relaxed),
        }
    }
}

/// One attempt under way.
#[derive(Debug)]
pub(crate) struct Leg {
    tally: Arc<Tally>,
    open: bool,
}

impl Leg {
    /// Bytes of the answer passed.
    pub(crate) fn answered(&self, bytes: usize) {
        self.tally.answer_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn end(mut self, end: LegEnd) {
        self.close(end);
    }

    fn close(&mut self, end: LegEnd) {
        if std::mem::take(&mut self.open) {
            self.tally.ends[end as usize].fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.close(LegEnd::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every attempt is in exactly one place, and one that is dropped was cancelled.
    #[test]
    fn each_ends_once() {
        let tally = Arc::new(Tally::default());
        let all = [LegEnd::Done, LegEnd::ClientError, LegEnd::Refused, LegEnd::Failed];
        for end in all {
            tally.begin(10).end(end);
        }
        let open = tally.begin(2);
        open.answered(7);
        drop(tally.begin(0));
        let expected = Forwards {
            begun: 6,
            done: 1,
            client_error: 1,
            refused: 1,
            failed: 1,
            cancelled: 1,
            in_flight: 1,
            request_bytes: 42,
            answer_bytes: 7,
        };
        assert_eq!(tally.read(), expected);
    }
}
