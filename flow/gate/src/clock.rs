//! The time of a gate.

use std::sync::Arc;
use std::time::Instant;

use meridian_base::Time;

/// A clock that never goes back. Its epoch is the same for all of its copies.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Time + Send + Sync>);

impl Clock {
    /// A clock that reads `now`.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Time {
        (self.0)()
    }
}

impl Default for Clock {
    /// The system's monotonic clock, from now on.
    fn default() -> Clock {
        let start = Instant::now();
        Clock::new(move || {
            Time::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
        })
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
