//! The machine's clock: nanoseconds since the gateway started, by tokio's clock, which tests can
//! pause. Dates count from the wall clock's time at the start, so they never go back.

use std::time::SystemTime;

use meridian_base::Time;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The start in ms since 1970.
    start_ms: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::start()
    }
}

impl Clock {
    fn start() -> Clock {
        #[expect(clippy::disallowed_methods, reason = "intervals on the status page have dates")]
        let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start_ms = u64::try_from(date.as_millis()).unwrap_or(0);
        Clock { start: Instant::now(), start_ms }
    }

    pub(crate) fn now(&self) -> Time {
        let nanos = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The date, in ms since 1970.
    pub(crate) fn date_ms(&self) -> u64 {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(ms)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.start + time.since(Time::ZERO)
    }
}
