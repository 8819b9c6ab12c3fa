//! What one request was charged.

use std::sync::Arc;

use http::header::HeaderMap;
use meridian_routing::Usage;

use super::Rates;

/// The tokens that a request was charged when it arrived; settled when this is dropped. Where the
/// engine's count does not come, because its client hung up or the engine does not count, the charge
/// stands, and more is charged where more was seen.
#[derive(Debug)]
pub(crate) struct Charge {
    rates: Arc<Rates>,
    /// The prompt's part.
    prompt: u32,
    taken: u32,
    /// Pieces of the reply that passed.
    seen: u32,
    /// As the engine counted.
    used: Option<u32>,
    /// Replies that nothing bounds.
    unbounded: u32,
}

impl Charge {
    pub(super) fn new(rates: Arc<Rates>, prompt: u32, taken: u32, unbounded: u32) -> Charge {
        Charge { rates, prompt, taken, seen: 0, used: None, unbounded }
    }

    /// The engine counted.
    pub(crate) fn counted(&mut self, usage: Usage) {
        self.used = Some(usage.prompt_tokens.saturating_add(usage.completion_tokens));
        if let Some(each) = usage.completion_tokens.checked_div(self.unbounded) {
            self.rates.learn(each);
        }
    }

    /// So many pieces of the reply passed, mostly a token each.
    pub(crate) fn seen(&mut self, pieces: u32) {
        self.seen = self.seen.saturating_add(pieces);
    }

    /// No engine worked on it: it was refused.
    pub(crate) fn nothing(&mut self) {
        self.used = Some(0);
    }

    /// Says in an answer's headers what is left.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        self.rates.write(headers);
    }

    /// Of an answer whose count did not come: what was seen of it is the least that it had.
    fn uncounted(&self) -> u32 {
        if let Some(each) = self.seen.checked_div(self.unbounded) {
            self.rates.learn_at_least(each);
        }
        self.taken.max(self.prompt.saturating_add(self.seen))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let used = self.used.unwrap_or_else(|| self.uncounted());
        self.rates.settle(self.taken, used);
    }
}
