//! A day cycle for a closed loop: the number of awake clients follows the sun.

use std::f64::consts::TAU;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The day of a closed loop's clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Day {
    /// Length of a day on the clock of the run.
    pub length: Duration,
    /// When most are awake, as a share of the day after the start.
    pub peak: f64,
    /// Share of the clients awake when fewest are.
    pub night: f64,
}

impl Day {
    /// How long a client sleeps before it checks again.
    pub const NAP: Duration = Duration::from_millis(100);

    /// How many of `clients` are awake `after` the start; at least one.
    #[must_use]
    pub fn awake(&self, clients: u32, after: Duration) -> u32 {
        let turn = after.as_secs_f64() / self.length.as_secs_f64() - self.peak;
        let light = (1.0 + libm::cos(TAU * turn)) / 2.0;
        let share = self.night + (1.0 - self.night) * light;
        (libm::round(f64::from(clients) * share) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // All are awake at the peak and the night's share half a day later; there is always at least
    // one.
    #[test]
    fn a_day() {
        let day = Day { length: Duration::from_secs(60), peak: 0.25, night: 0.5 };
        assert_eq!(day.awake(20, Duration::from_secs(15)), 20);
        assert_eq!(day.awake(20, Duration::from_secs(45)), 10);
        assert_eq!(day.awake(20, Duration::from_secs(30)), 15);
        let dark = Day { night: 0.0, ..day };
        assert_eq!(dark.awake(20, Duration::from_secs(45)), 1);
    }
}
