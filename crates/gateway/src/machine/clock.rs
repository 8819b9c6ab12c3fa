//! The machine's clock: nanoseconds since the gateway started, by tokio's clock, which tests can
//! pause.

use meridian_base::Time;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        let nanos = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.start + time.since(Time::ZERO)
    }
}
