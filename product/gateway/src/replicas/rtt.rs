//! The round trip to a replica, measured by its probes.
//!
//! A gateway may have replicas of other regions: one that serves all regions, or one of several
//! that all see every replica. Policies weigh the round trip, so it is measured: the shortest of
//! the latest probes, which neither had to connect nor waited in a queue. A short round trip counts
//! as zero: there the noise of a busy machine would separate equal replicas.

use meridian_base::Duration;

use crate::lock::Mutex;

/// Shorter round trips count as zero.
const FAR: Duration = Duration::from_millis(10);
/// Probes per window; the shortest of this window and the previous one counts.
const WINDOW: u32 = 32;
/// Probes needed before the first result.
const FEWEST: u32 = 4;
/// Relative change after which a round trip is reported again.
const CHANGE: f64 = 0.2;

/// The round trip to one replica.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    before: Option<Duration>,
    least: Option<Duration>,
    count: u32,
    reported: Duration,
}

impl RoundTrip {
    /// Adds a probe's duration; true if the round trip differs from the reported one.
    pub(crate) fn probed(&self, took: Duration) -> bool {
        let mut seen = self.0.lock();
        seen.take(took);
        let Some(now) = seen.now() else { return false };
        let reported = seen.reported;
        let apart = now.abs_diff(reported).as_secs_f64();
        let changed = apart > CHANGE * now.max(reported).as_secs_f64();
        if changed {
            seen.reported = now;
        }
        changed
    }

    /// The round trip as last reported; zero if it is short.
    pub(crate) fn rtt(&self) -> Duration {
        self.0.lock().reported
    }
}

impl Seen {
    fn take(&mut self, took: Duration) {
        if self.count == WINDOW {
            (self.before, self.least, self.count) = (self.least, None, 0);
        }
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.count += 1;
        assert!(self.count <= WINDOW, "a window of {} probes", self.count);
    }

    /// None until there are enough probes.
    fn now(&self) -> Option<Duration> {
        let enough = self.before.is_some() || self.count >= FEWEST;
        let shortest = self.before.into_iter().chain(self.least).min().filter(|_| enough)?;
        Some(if shortest < FAR { Duration::ZERO } else { shortest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    // The round trip of a far replica is that of its shortest probe, once there were several: the
    // first had to connect.
    #[test]
    fn the_shortest_counts() {
        let trip = RoundTrip::default();
        assert!(!trip.probed(ms(270)) && !trip.probed(ms(95)) && !trip.probed(ms(92)));
        assert!(trip.probed(ms(130)));
        assert_eq!(trip.rtt(), ms(92));
        assert!(!trip.probed(ms(90)), "a small change is not reported");
        assert_eq!(trip.rtt(), ms(92));
    }

    // The round trip of a replica in the same region is zero, however long a probe took on a busy
    // machine.
    #[test]
    fn what_is_near_is_at_no_distance() {
        let trip = RoundTrip::default();
        for took in [3, 40, 1, 2, 25, 60] {
            assert!(!trip.probed(ms(took)));
        }
        assert_eq!(trip.rtt(), Duration::ZERO);
    }

    // A longer round trip takes effect after two windows, a shorter one at once.
    #[test]
    fn a_way_that_changes() {
        let trip = RoundTrip::default();
        (0..4).for_each(|_| _ = trip.probed(ms(50)));
        let longer = (0..2 * WINDOW).filter(|_| trip.probed(ms(200))).count();
        assert_eq!((longer, trip.rtt()), (1, ms(200)));
        assert!(trip.probed(ms(100)));
    }
}
