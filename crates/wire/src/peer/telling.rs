//! Telling one peer how the region is: the difference to what it was told before.
//!
//! A stream loses nothing and keeps the order, so the peer knows what was sent on it; a new stream
//! begins anew. A prefix is told once and again only after a while, since the peer keeps it for a
//! minute, and prefixes are told only as far as the budget goes: with too little of it the newest
//! go first, and what is left out costs a match, never a wrong answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use meridian_base::{ReplicaId, Time};
use meridian_routing::{Digest, SharedPrefix};

use super::bounds::MOST_PREFIXES;
use super::news::News;
use super::page::Page;

/// Bytes of a prefix in a message: its hash and the number of its replica.
const PREFIX_BYTES: f64 = 10.0;
/// A peer takes a prefix that it was told a minute ago to be gone; it is told again before.
const AGAIN: Duration = Duration::from_secs(20);
/// Prefixes of which it is remembered that they were told.
const REMEMBERED: usize = 1 << 14;

/// How many bytes a second the prefixes may take, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Bytes a second.
    pub rate: f64,
    /// Bytes saved up at most.
    pub burst: f64,
}

impl Default for Budget {
    /// 64 KiB a second, 6,500 prefixes.
    fn default() -> Budget {
        Budget { rate: 65536.0, burst: 65536.0 }
    }
}

/// What one peer was told on one stream.
#[derive(Debug)]
pub struct Telling {
    version: u64,
    /// What it was told last.
    digest: Option<Arc<Digest>>,
    told: HashMap<u64, (Time, ReplicaId)>,
    shares: bool,
    budget: Budget,
    saved: f64,
    at: Time,
}

impl Telling {
    /// A stream that begins at `now`, on which prefixes are told where the two sides' compare.
    #[must_use]
    pub fn new(now: Time, shares: bool, budget: Budget) -> Telling {
        Telling {
            version: 0,
            digest: None,
            told: HashMap::new(),
            shares,
            budget,
            saved: budget.burst,
            at: now,
        }
    }

    /// Whether prefixes are told from now on.
    pub fn share(&mut self, shares: bool) {
        self.shares = shares;
    }

    /// What is to be sent so that the peer knows what a page says.
    pub fn news(&mut self, now: Time, page: &Page) -> News {
        let digest = page.digest();
        let base = self.version;
        self.version += 1;
        let changes = page.since(self.digest.as_ref());
        let told = self.digest.as_ref().map(|told| &told.places);
        let places = (told != Some(&digest.places)).then(|| digest.places.clone());
        self.digest = Some(digest.clone());
        News {
            version: self.version,
            base,
            held: digest.held,
            eligible: digest.eligible,
            usable: digest.usable,
            utilisation: digest.utilisation,
            kv_tokens: digest.kv_tokens,
            learned_ms_per_token: digest.learned_ms_per_token,
            whole: digest.whole,
            changes,
            places,
            prefixes: self.prefixes(now, &digest.prefixes),
        }
    }

    /// Those that the peer does not know of, as far as the budget goes.
    fn prefixes(&mut self, now: Time, all: &[SharedPrefix]) -> Vec<SharedPrefix> {
        let earned = now.since(self.at).as_secs_f64() * self.budget.rate;
        self.saved = (self.saved + earned).min(self.budget.burst);
        self.at = now;
        if !self.shares {
            return Vec::new();
        }
        let mut news = Vec::new();
        for prefix in all {
            let told = self.told.get(&prefix.hash);
            if told.is_some_and(|(at, r)| *r == prefix.replica && now.since(*at) < AGAIN) {
                continue;
            }
            if self.saved < PREFIX_BYTES || news.len() == MOST_PREFIXES {
                break;
            }
            self.saved -= PREFIX_BYTES;
            self.told.insert(prefix.hash, (now, prefix.replica));
            news.push(*prefix);
        }
        if self.told.len() > REMEMBERED {
            self.told.retain(|_, (at, _)| now.since(*at) < AGAIN);
        }
        if self.told.len() > REMEMBERED {
            // More were told within that time than are remembered: they may be told twice.
            self.told.clear();
        }
        news
    }
}
