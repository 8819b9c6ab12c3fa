//! How far away a replica is, by its probes.
//!
//! A gateway may have replicas of other regions: one that serves all regions, or one of those that
//! see all replicas. Policies weigh the way to them, so it is measured: the shortest of the latest
//! probes, which had neither to connect nor to wait behind anybody. What is near is said to be at no
//! distance at all: there the noise of a busy machine would tell replicas apart that are alike.

use meridian_base::Duration;

use crate::lock::Mutex;

/// Shorter ways are none.
const FAR: Duration = Duration::from_millis(10);
/// Probes of which the shortest counts; those of the window before count as well.
const WINDOW: u32 = 32;
/// So many are needed at first.
const FEWEST: u32 = 4;
/// A way is told anew when it has changed by this share.
const CHANGE: f64 = 0.2;

/// The way to one replica.
#[derive(Debug, Default)]
pub(crate) struct Way(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    before: Option<Duration>,
    least: Option<Duration>,
    count: u32,
    told: Duration,
}

impl Way {
    /// Takes a probe that took so long; true when the way is another one than was told.
    pub(crate) fn probed(&self, took: Duration) -> bool {
        let mut seen = self.0.lock();
        seen.take(took);
        let Some(now) = seen.now() else { return false };
        let told = seen.told;
        let apart = now.abs_diff(told).as_secs_f64();
        let changed = apart > CHANGE * now.max(told).as_secs_f64();
        if changed {
            seen.told = now;
        }
        changed
    }

    /// The round trip as it was told last; zero where it is near.
    pub(crate) fn rtt(&self) -> Duration {
        self.0.lock().told
    }
}

impl Seen {
    fn take(&mut self, took: Duration) {
        if self.count == WINDOW {
            (self.before, self.least, self.count) = (self.least, None, 0);
        }
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.count += 1;
    }

    /// None while too little is known.
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

    // A far replica is as far as its shortest probe, once there were some: the first had to connect.
    #[test]
    fn the_shortest_counts() {
        let way = Way::default();
        assert!(!way.probed(ms(270)) && !way.probed(ms(95)) && !way.probed(ms(92)));
        assert!(way.probed(ms(130)));
        assert_eq!(way.rtt(), ms(92));
        assert!(!way.probed(ms(90)), "nearly the same is the same");
        assert_eq!(way.rtt(), ms(92));
    }

    // One in the same region is at no distance, however long a busy machine made a probe take.
    #[test]
    fn what_is_near_is_at_no_distance() {
        let way = Way::default();
        for took in [3, 40, 1, 2, 25, 60] {
            assert!(!way.probed(ms(took)));
        }
        assert_eq!(way.rtt(), Duration::ZERO);
    }

    // A way that has become longer is so after two windows, one that has become shorter at once.
    #[test]
    fn a_way_that_changes() {
        let way = Way::default();
        (0..4).for_each(|_| _ = way.probed(ms(50)));
        let longer = (0..2 * WINDOW).filter(|_| way.probed(ms(200))).count();
        assert_eq!((longer, way.rtt()), (1, ms(200)));
        assert!(way.probed(ms(100)));
    }
}
