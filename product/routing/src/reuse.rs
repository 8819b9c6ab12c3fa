//! The KV memory that a replica's prefix cache needs.
//!
//! An engine evicts cached prefixes to make space for running requests. If they are requested again,
//! it computes them again, which costs the most when prompts are long and the replica is busy. So
//! some memory is worth keeping for the cache, namely as much as the prefixes fill that are waiting
//! for their next use.
//!
//! By Little's law the reused text in the cache is the rate at which cached tokens are used again,
//! times the mean time T since their last use: each dispatch adds (matched tokens) x (time since
//! their last use). Between it lies text that is not used again, and an engine evicts the least
//! recently used of both. If a share h of all tokens is reused, the cache must be larger by 1/h. And
//! a prefix should stay for longer than T: 2 T keeps 86 % of those whose next use comes at random.
//!
//! ```text
//! memory = 2 x (token-seconds per second) / h
//! ```
//!
//! Requests wait for that memory, so it must be worth more than their wait. An eviction costs prefill,
//! in proportion to the time that the replica spends on prompts, and that prefill delays the other
//! prompts, again in proportion to it. So at most a quarter of the KV is kept by a replica that spends
//! half of its time or more on prompts, and by others less, as the square of that time.

use meridian_base::{Duration, Time};

use crate::cost::Share;

/// Averages over a replica's dispatches, weighted by age.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reuse {
    /// Tokens that waited for their next use.
    waiting: f32,
    /// Matched tokens, and all tokens of prompts and expected replies.
    matched: f32,
    all: f32,
    at: Time,
    /// Time spent on prompts.
    prefill: Share,
}

/// One dispatch, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// The matched tokens, each times the seconds since its last use.
    pub(crate) token_seconds: f32,
    pub(crate) matched: f32,
    /// The prompt and the expected reply.
    pub(crate) all: f32,
}

/// Time constant of the averages.
const TAU: Duration = Duration::from_secs(30);
/// Time that a prefix should stay, over the mean time to its next use.
const STAYS: f32 = 2.0;
/// Most of the KV memory that is kept.
const MOST: f32 = 0.25;
/// A replica that spends this share of its time on prompts, or more, keeps all of that.
const BUSY: f64 = 0.5;

impl Default for Reuse {
    fn default() -> Reuse {
        Reuse { waiting: 0.0, matched: 0.0, all: 0.0, at: Time::ZERO, prefill: Share::new(TAU) }
    }
}

impl Reuse {
    /// Adds a dispatch.
    pub(crate) fn add(&mut self, now: Time, used: Used) {
        let keep = self.keep(now);
        self.waiting = self.waiting * keep + used.token_seconds / TAU.as_secs_f32();
        self.matched = self.matched * keep + used.matched;
        self.all = self.all * keep + used.all;
        self.at = now;
    }

    /// Adds prefill work of `ms` that ends now.
    pub(crate) fn prefilled(&mut self, now: Time, ms: f64) {
        self.prefill.add(now, ms);
    }

    /// Tokens to keep of a KV memory of `size` tokens.
    pub(crate) fn kept(&self, size: f32) -> f32 {
        let busy = (self.prefill.get() / BUSY).min(1.0);
        self.tokens().min(MOST * size * (busy * busy) as f32)
    }

    /// Tokens that wait for their next use and what lies between, as of the last dispatch: time alone
    /// opens no replica.
    fn tokens(&self) -> f32 {
        if self.matched <= 0.0 {
            return 0.0;
        }
        STAYS * self.waiting * self.all / self.matched
    }

    fn keep(&self, now: Time) -> f32 {
        libm::expf(-now.since(self.at).as_secs_f32() / TAU.as_secs_f32())
    }
}

/// The share of a region's tokens that its caches had: the chance that a new token is used again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HitShare {
    matched: f32,
    all: f32,
}

/// Weight of a dispatch in the hit share when the next one follows.
const KEEP: f32 = 0.99;

impl HitShare {
    /// Adds a dispatch.
    pub(crate) fn add(&mut self, matched: f32, all: f32) {
        self.matched = KEEP * self.matched + matched;
        self.all = KEEP * self.all + all;
    }

    /// The share, 0 to 1; 0 before the first dispatch.
    pub(crate) fn share(&self) -> f32 {
        if self.all > 0.0 { self.matched / self.all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Prefixes of 1,000 tokens, each used every 10 seconds behind which 1,000 tokens of other text
    // follow: twenty of them wait at any time, as much other text lies between, and they should stay
    // for twice the time.
    #[test]
    fn memory_for_waiting_prefixes() {
        let mut reuse = Reuse::default();
        let at = |tick: u64| Time::ZERO + Duration::from_millis(500 * tick);
        let used = Used { token_seconds: 1000.0 * 10.0, matched: 1000.0, all: 2000.0 };
        (0..600).for_each(|tick| reuse.add(at(tick), used));
        let kept = reuse.tokens();
        assert!((kept / (20_000.0 * 2.0 * 2.0) - 1.0).abs() < 0.02, "{kept}");
        let unique = Used { token_seconds: 0.0, matched: 1.0, all: 2000.0 };
        reuse.add(at(600) + 5 * TAU, unique);
        assert!(reuse.tokens() < 0.5 * kept, "{}", reuse.tokens());
    }

    // A replica at work on prompts all the time keeps a quarter of its memory, one that spends a
    // quarter of its time on them a quarter of that, and one burst changes little.
    #[test]
    fn what_is_kept_follows_the_time_spent_on_prompts() {
        let kept = |ms: f64, burst: f64| {
            let mut reuse = Reuse::default();
            let used = Used { token_seconds: 1e6, matched: 1000.0, all: 2000.0 };
            for tick in 0..300 {
                let now = Time::ZERO + Duration::from_secs(tick);
                reuse.add(now, used);
                reuse.prefilled(now, if tick == 299 { ms + burst } else { ms });
            }
            reuse.kept(100_000.0)
        };
        assert_eq!(kept(900.0, 0.0), 25_000.0);
        assert!((kept(250.0, 0.0) / 6250.0 - 1.0).abs() < 0.05, "{}", kept(250.0, 0.0));
        assert!(kept(100.0, 1000.0) < 2000.0, "{}", kept(100.0, 1000.0));
    }

    // Text that is never used again needs no memory.
    #[test]
    fn unique_text_needs_none() {
        let mut reuse = Reuse::default();
        reuse.add(Time::ZERO, Used { token_seconds: 0.0, matched: 0.0, all: 5000.0 });
        assert_eq!(reuse.tokens(), 0.0);
    }
}
