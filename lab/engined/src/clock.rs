//! Model time from tokio's clock, which tests pause.

use meridian_base::Time;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Maps wall time to model time and back. The epoch is the clock's creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    scale: f64,
}

impl Clock {
    pub(crate) fn new(scale: f64) -> Clock {
        Clock { start: Instant::now(), scale }
    }

    /// Model time now.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos((self.start.elapsed().as_nanos() as f64 * self.scale) as u64)
    }

    /// The earliest instant at which the model time `at` has certainly been reached.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        let wall = Duration::from_secs_f64(at.as_secs_f64() / self.scale);
        self.start + wall + Duration::from_micros(1)
    }

    /// Wall seconds of a model duration, as a client experiences it.
    pub(crate) fn wall_seconds(&self, model: Duration) -> f64 {
        model.as_secs_f64() / self.scale
    }
}

/// The time since 1970, for the `created` fields and the metrics that are dates.
#[expect(clippy::disallowed_methods, reason = "a date is what vLLM says there")]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
