//! Counts requests forwarded to a peer and from a peer, one tally per direction and peer.
//!
//! A [`CountedForward`] is an attempt from its beginning to its end. If its client leaves, it is dropped,
//! which also ends it, so every attempt is counted exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meridian_protocol::admin::Forwards;

/// The counts of one direction.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    begun: AtomicU64,
    ends: [AtomicU64; 5],
    request_bytes: AtomicU64,
    answer_bytes: AtomicU64,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardEnd {
    Done,
    ClientError,
    Refused,
    Failed,
    Cancelled,
}

impl Tally {
    /// Starts an attempt with a body of `request_bytes`.
    pub(crate) fn begin(self: &Arc<Self>, request_bytes: u64) -> CountedForward {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.request_bytes.fetch_add(request_bytes, Ordering::Relaxed);
        CountedForward { tally: self.clone(), open: true }
    }

    /// Reads the counts. While attempts start and end, they are of nearly the same moment.
    pub(crate) fn read(&self) -> Forwards {
        // Ends are read first: an attempt that ends in between has started before, so no difference
        // is negative.
        let [done, client_error, refused, failed, cancelled] =
            [0, 1, 2, 3, 4].map(|at: usize| self.ends[at].load(Ordering::Acquire));
        let begun = self.begun.load(Ordering::Acquire);
        let ended = done + client_error + refused + failed + cancelled;
        assert!(ended <= begun, "more forwards ended than began");
        Forwards {
            begun,
            done,
            client_error,
            refused,
            failed,
            cancelled,
            in_flight: begun - ended,
            request_bytes: self.request_bytes.load(Ordering::Relaxed),
            answer_bytes: self.answer_bytes.load(Ordering::Relaxed),
        }
    }
}

/// One attempt in flight.
#[derive(Debug)]
pub(crate) struct CountedForward {
    tally: Arc<Tally>,
    open: bool,
}

impl CountedForward {
    /// Adds bytes of the answer.
    pub(crate) fn answered(&self, bytes: usize) {
        self.tally.answer_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn end(mut self, end: ForwardEnd) {
        self.close(end);
    }

    fn close(&mut self, end: ForwardEnd) {
        if std::mem::take(&mut self.open) {
            self.tally.ends[end as usize].fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for CountedForward {
    fn drop(&mut self) {
        self.close(ForwardEnd::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every attempt has exactly one outcome, and a dropped one was cancelled.
    #[test]
    fn each_ends_once() {
        let tally = Arc::new(Tally::default());
        let all =
            [ForwardEnd::Done, ForwardEnd::ClientError, ForwardEnd::Refused, ForwardEnd::Failed];
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
