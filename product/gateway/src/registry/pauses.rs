//! Pauses after failed requests to the control plane, different for each gateway.
//!
//! With several control planes, the first pauses are short: the next one probably answers. Only when
//! all of them have failed does the pause grow, with each such round. With one, every failure is a
//! round.

use std::time::Duration;

use meridian_base::{Rng, keyed};
use tokio::time::sleep;

/// The first pause.
const PAUSE: Duration = Duration::from_millis(100);

/// The pauses of one task.
pub(super) struct Pauses {
    rng: Rng,
    /// The pause after the next round in which all failed.
    next: Duration,
    /// The longest one.
    most: Duration,
    /// Control planes in a round.
    round: usize,
    /// Failures since the last success or refusal.
    failures: usize,
}

impl Pauses {
    /// For a task of the gateway `name`; `salt` differs for each task.
    pub(super) fn new(name: &str, salt: u64, round: usize, most: Duration) -> Pauses {
        assert!(round > 0, "a round of no control plane is never over");
        let rng = Rng::new(keyed(salt, name.as_bytes()));
        Pauses { rng, next: PAUSE, most, round, failures: 0 }
    }

    /// Counts a failure. Returns whether it is time to give up for now: the control plane refused,
    /// so that another one would do the same, or a round has failed.
    pub(super) fn failed(&mut self, is_refused: bool) -> bool {
        self.failures = if is_refused { 0 } else { self.failures + 1 };
        self.is_round_over()
    }

    fn is_round_over(&self) -> bool {
        self.failures.is_multiple_of(self.round)
    }

    /// After a success.
    pub(super) fn begin_anew(&mut self) {
        (self.next, self.failures) = (PAUSE, 0);
    }

    /// Pauses after a failure.
    pub(super) async fn pause(&mut self) {
        sleep(self.duration()).await;
    }

    fn duration(&mut self) -> Duration {
        let mut pause = PAUSE.min(self.most);
        if self.is_round_over() {
            pause = self.next.min(self.most);
            self.next = (self.next * 2).min(self.most);
        }
        assert!(pause <= self.most, "a pause of {pause:?} is longer than {:?}", self.most);
        pause.mul_f64(0.5 + self.rng.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses of this many failures, in ms and without the random part.
    fn pauses(round: usize, failures: usize) -> Vec<u128> {
        let mut pauses = Pauses::new("us-1", 1, round, Duration::from_secs(1));
        let mut twin = Rng::new(keyed(1, b"us-1"));
        let one = |_| {
            pauses.failed(false);
            let pause = pauses.duration().div_f64(0.5 + twin.unit());
            (pause + Duration::from_micros(1)).as_millis()
        };
        (0..failures).map(one).collect()
    }

    // The pause doubles up to the longest one: after each failure of a single control plane, after
    // each round of several.
    #[test]
    fn grow_with_each_round() {
        assert_eq!(pauses(1, 6), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(pauses(3, 9), [100, 100, 100, 100, 100, 200, 100, 100, 400]);
    }

    // A refusal is final, whichever control plane sends it. A new round starts after it, and after a
    // success.
    #[test]
    fn refusals_and_successes() {
        let mut pauses = Pauses::new("us-1", 1, 2, Duration::from_secs(1));
        assert!(!pauses.failed(false));
        assert!(pauses.failed(true));
        assert!(!pauses.failed(false));
        assert!(pauses.failed(false));
        assert!(!pauses.failed(false));
        pauses.begin_anew();
        assert!(!pauses.failed(false));
    }

    // No pause is longer than half as much again as the longest one.
    #[test]
    fn short_leases_have_short_pauses() {
        let mut pauses = Pauses::new("us-1", 1, 2, Duration::from_millis(30));
        for _ in 0..9 {
            pauses.failed(false);
            assert!(pauses.duration() <= Duration::from_millis(45));
        }
    }
}
