//! How many tokens the region serves.

use meridian_base::Time;

/// Tokens of this second and of the one before.
#[derive(Debug, Default)]
pub(super) struct ServedPace {
    second: u64,
    now: u64,
    before: u64,
}

impl ServedPace {
    pub(super) fn add(&mut self, now: Time, tokens: u32) {
        let second = now.since(Time::ZERO).as_secs();
        if second > self.second {
            self.before = if second == self.second + 1 { self.now } else { 0 };
            (self.second, self.now) = (second, 0);
        }
        self.now += u64::from(tokens);
    }

    /// Tokens in a second, as of the newest.
    pub(super) fn in_a_second(&self) -> u64 {
        self.now.max(self.before)
    }
}
