//! Expiry by age, for policies with a time to live.
//!
//! A target's order is by last use, so expired entries are at its tail. A hold is used as a whole,
//! or else it is split. Times are whole milliseconds.

use meridian_base::{Duration, Time};

#[derive(Debug)]
pub(super) struct Ages {
    ttl_ms: Option<u32>,
    now_ms: u32,
}

impl Ages {
    pub(super) fn new(ttl: Option<Duration>) -> Ages {
        let ms = |ttl: Duration| u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX);
        Ages { ttl_ms: ttl.map(ms), now_ms: 0 }
    }

    pub(super) fn set_now(&mut self, now: Time) {
        // Wraps after 49 days, as the differences below do.
        self.now_ms = (now.as_nanos() / 1_000_000) as u32;
    }

    pub(super) fn now_ms(&self) -> u32 {
        self.now_ms
    }

    /// The time since `used`, in ms.
    pub(super) fn since(&self, used: u32) -> u64 {
        u64::from(self.now_ms.wrapping_sub(used))
    }

    /// Whether an entry last used then is too old.
    pub(super) fn is_old(&self, used: u32) -> bool {
        self.ttl_ms.is_some_and(|ttl| self.now_ms.wrapping_sub(used) >= ttl)
    }
}
