//! What each session was served lately, so that one with many sub-agents does not starve another.
//!
//! A session's tokens, of prompts as they are sent and of replies as they end, count half as much after each half-life
//! ("least attained service", as in llm-d's fairness policy of that name). The table is bounded: when it is full, the
//! half that was served less is forgotten, and starts again at 0 when it returns.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// Most sessions that are known at a time.
const MOST: usize = 4096;
/// About as long as an agent's task: a session that rests this long counts as half as large.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The tokens that each session was served.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By tenant and session: two tenants may use one name.
    tokens: BTreeMap<(u64, u64), u64>,
    /// Their sum.
    all: u64,
    halved: Time,
}

impl Sessions {
    /// Counts tokens that a tenant's session was served. Requests without one are not counted.
    pub(super) fn charge(&mut self, now: Time, tenant: u64, session: Option<u64>, tokens: u32) {
        self.age(now);
        let Some(session) = session else { return };
        let session = (tenant, session);
        if self.tokens.len() >= MOST && !self.tokens.contains_key(&session) {
            self.forget_small();
        }
        *self.tokens.entry(session).or_default() += u64::from(tokens);
        self.all += u64::from(tokens);
    }

    /// How many tokens more than the mean session a session was served.
    pub(super) fn above_mean(&self, tenant: u64, session: u64) -> u64 {
        let mean = self.all / self.tokens.len().max(1) as u64;
        self.served(tenant, session).saturating_sub(mean)
    }

    /// The tokens that a session was served, as of the newest charge; 0 if it is new.
    pub(super) fn served(&self, tenant: u64, session: u64) -> u64 {
        self.tokens.get(&(tenant, session)).copied().unwrap_or(0)
    }

    /// Sessions that are known.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The largest session's share of the tokens that all were served.
    pub(super) fn largest_share(&self) -> f64 {
        let most = self.tokens.values().max().copied().unwrap_or(0);
        if self.all == 0 { 0.0 } else { most as f64 / self.all as f64 }
    }

    fn age(&mut self, now: Time) {
        let passed = now.since(self.halved).as_secs() / HALF_LIFE.as_secs();
        if passed > 0 {
            self.halved = self.halved + Duration::from_secs(passed * HALF_LIFE.as_secs());
            self.halve(passed.min(63) as u32);
        }
    }

    fn forget_small(&mut self) {
        let mut all: Vec<u64> = self.tokens.values().copied().collect();
        let (_, median, _) = all.select_nth_unstable(MOST / 2);
        self.tokens.retain(|_, tokens| *tokens > *median);
        self.all = self.tokens.values().sum();
    }

    fn halve(&mut self, times: u32) {
        self.tokens.retain(|_, tokens| {
            *tokens >>= times;
            *tokens > 0
        });
        self.all = self.tokens.values().sum();
    }
}
