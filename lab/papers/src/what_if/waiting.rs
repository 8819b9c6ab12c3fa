//! How long the requests of a run wait, over its window.

use std::time::Duration;

use meridian_base::Time;
use meridian_sim::{Fate, Record};

/// The wait over the quarters of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waiting {
    /// Mean seconds to the first token, or to the refusal, by the quarter in which a request was
    /// sent.
    pub(super) seconds: [f64; 4],
    /// Requests without a first token in the last quarter, in the mean (Little's law).
    pub(super) queue: f64,
    /// Seconds of a quarter.
    pub(super) quarter: f64,
}

impl Waiting {
    /// The wait of these requests in a window that starts at `start`.
    pub(super) fn of(requests: &[Record], start: Time, window: Duration) -> Waiting {
        let quarter = window.as_secs_f64() / 4.0;
        let (mut sums, mut counts) = ([0.0; 4], [0.0; 4]);
        for request in requests {
            let waits = match request.fate {
                Fate::Done => request.ttft,
                _ => request.e2e,
            };
            let at = ((request.sent.since(start).as_secs_f64() / quarter) as usize).min(3);
            sums[at] += waits.as_secs_f64();
            counts[at] += 1.0;
        }
        let seconds = std::array::from_fn(|at| sums[at] / f64::max(counts[at], 1.0));
        Waiting { seconds, queue: sums[3] / quarter, quarter }
    }

    /// By how many seconds the wait grows in a second: the slope of the least squares.
    pub(super) fn slope(&self) -> f64 {
        let [first, second, third, last] = self.seconds;
        (1.5 * (last - first) + 0.5 * (third - second)) / (5.0 * self.quarter.max(1e-9))
    }
}
