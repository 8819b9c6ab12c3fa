//! Age: entries that were not used for a while are forgotten, for rules that say so.
//!
//! A target's order is by last use, so what is too old is the tail of it. Four bytes an entry, and
//! only where a time to live is set; times are whole milliseconds.

use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, Time};

#[derive(Debug)]
pub(super) struct Ages {
    /// Last use of each entry, in ms; empty without a time to live.
    used: Vec<u32>,
    ttl_ms: u32,
    now_ms: u32,
}

impl Ages {
    pub(super) fn new(entries: usize, ttl: Option<Duration>) -> Ages {
        let ms = ttl.map_or(0, |t| u32::try_from(t.as_millis()).unwrap_or(u32::MAX));
        let used = if ttl.is_some() { vec![0; entries] } else { Vec::new() };
        Ages { used, ttl_ms: ms, now_ms: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.used.capacity() * size_of::<u32>()
    }

    pub(super) fn set_now(&mut self, now: Time) {
        // Wraps after 49 days, as the differences below do.
        self.now_ms = (now.as_nanos() / 1_000_000) as u32;
    }

    /// `entry` is used now.
    pub(super) fn touch(&mut self, entry: u32) {
        if let Some(used) = self.used.get_mut(entry as usize) {
            *used = self.now_ms;
        }
    }

    pub(super) fn is_old(&self, entry: u32) -> bool {
        let used = self.used.get(entry as usize);
        used.is_some_and(|used| self.now_ms.wrapping_sub(*used) >= self.ttl_ms)
    }
}
