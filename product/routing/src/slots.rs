//! How many requests a replica runs at once, learned where the engine does not report it.
//!
//! vLLM and SGLang start no further request beyond a limit (`max_num_seqs`, `max_running_requests`),
//! which their metrics do not contain. It shows while requests wait although there is free KV
//! memory: the number of running requests then stays at its maximum, because the next one starts in
//! the step in which one ends. If requests wait for memory or for the prefill of others, the number
//! varies, or none ends meanwhile.
//!
//! While the gateway respects the limit no request waits, and nothing would show that the limit has
//! been raised. So it is forgotten after a while, and if it still holds, a few requests show it
//! again.

use meridian_base::{Duration, Time};

/// Reports at the maximum, and ends of requests between them, that show a limit.
const ENOUGH: u32 = 8;
/// Reports at the maximum for each one below it.
const MOSTLY: u32 = 8;
/// Above this share of KV in use, requests may be waiting for memory.
const FULL: f32 = 0.9;
/// How long a limit is used after it was seen, and how long observations count.
const LASTS: Duration = Duration::from_secs(60);

/// The limit of one replica.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots {
    limit: Option<(u32, Time)>,
    /// The most requests that ran while others waited, and since when none more.
    most: u32,
    since: Time,
    /// Reports with waiting requests: at the most, and below it.
    at: u32,
    below: u32,
    /// Requests that ended since then.
    ends: u32,
}

impl Slots {
    /// Counts a request that ended.
    pub(crate) fn ended(&mut self) {
        self.ends = self.ends.saturating_add(1);
    }

    /// Adds a report of an engine.
    pub(crate) fn report(&mut self, now: Time, running: u32, pending: u32, kv_used: f32) {
        if self.limit.is_some_and(|(limit, at)| running > limit || now.since(at) > LASTS) {
            self.limit = None;
        }
        if pending == 0 || running == 0 || kv_used >= FULL {
            return;
        }
        if running > self.most || now.since(self.since) > LASTS {
            *self = Slots { limit: self.limit, most: running, since: now, ..Slots::default() };
        }
        match running == self.most {
            true => self.at = self.at.saturating_add(1),
            false => self.below = self.below.saturating_add(1),
        }
        if self.at >= ENOUGH && self.ends >= ENOUGH && self.at >= MOSTLY * self.below {
            self.limit = Some((self.most, now));
        }
    }

    /// The limit, if one has been seen.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit.map(|(limit, _)| limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports every 100 ms, with an end between two of them.
    fn reports(slots: &mut Slots, from_ms: u64, running: &[u32], pending: u32, kv_used: f32) {
        for (at, running) in running.iter().enumerate() {
            slots.ended();
            let now = Time::from_millis(from_ms + 100 * at as u64);
            slots.report(now, *running, pending, kv_used);
        }
    }

    fn after(running: &[u32], pending: u32, kv_used: f32) -> Slots {
        let mut slots = Slots::default();
        reports(&mut slots, 0, running, pending, kv_used);
        slots
    }

    // Requests wait with memory to spare, and the number of running ones stays at its maximum.
    #[test]
    fn limit_is_learned() {
        assert_eq!(after(&[48; 8], 2, 0.3).limit(), None);
        assert_eq!(after(&[48; 9], 2, 0.3).limit(), Some(48));
        assert_eq!(after(&[&[47][..], &[48; 9]].concat(), 2, 0.3).limit(), Some(48));
    }

    // Nothing waits, there is no memory to spare, the number varies, or no request ends.
    #[test]
    fn other_waits_are_no_limit() {
        assert_eq!(after(&[48; 20], 0, 0.3).limit(), None);
        assert_eq!(after(&[48; 20], 2, 0.95).limit(), None);
        assert_eq!(after(&[48, 47, 48, 46].repeat(10), 2, 0.3).limit(), None);
        let mut slots = Slots::default();
        (0..20).for_each(|at| slots.report(Time::from_millis(at), 48, 2, 0.3));
        assert_eq!(slots.limit(), None);
    }

    // A limit is forgotten when more requests run, and after a minute.
    #[test]
    fn limit_is_forgotten() {
        let with = |at, running| {
            let mut slots = after(&[48; 9], 1, 0.3);
            slots.report(Time::from_millis(at), running, 0, 0.3);
            slots.limit()
        };
        assert_eq!(with(900, 48), Some(48));
        assert_eq!(with(900, 49), None);
        assert_eq!(with(61_000, 40), None);
    }
}
