//! The charge of one request.

use std::sync::Arc;

use http::header::HeaderMap;
use meridian_routing::Usage;

use super::Rates;

/// The tokens that a request was charged on arrival, corrected when this is dropped. Without the
/// engine's count, because the client hung up or the engine does not count, the charge stays, and
/// it grows if more tokens were delivered.
#[derive(Debug)]
pub(crate) struct Charge {
    rates: Arc<Rates>,
    /// The prompt's share.
    prompt: u32,
    taken: u32,
    /// Units of the limit that each token took.
    weight: u32,
    /// Delivered pieces of the reply.
    seen: u32,
    /// The engine's count.
    used: Option<u32>,
    /// Number of replies without a limit.
    unbounded: u32,
}

impl Charge {
    pub(super) fn new(
        rates: Arc<Rates>,
        prompt: u32,
        taken: u32,
        weight: u32,
        unbounded: u32,
    ) -> Charge {
        Charge { rates, prompt, taken, weight, seen: 0, used: None, unbounded }
    }

    /// Sets the engine's count.
    pub(crate) fn counted(&mut self, usage: Usage) {
        self.used = Some(usage.prompt_tokens.saturating_add(usage.completion_tokens));
        if let Some(each) = usage.completion_tokens.checked_div(self.unbounded) {
            self.rates.learn(each);
        }
    }

    /// Adds delivered pieces of the reply, mostly one token each.
    pub(crate) fn seen(&mut self, pieces: u32) {
        self.seen = self.seen.saturating_add(pieces);
    }

    /// Cancels the charge: the request was refused before an engine worked on it.
    pub(crate) fn nothing(&mut self) {
        self.used = Some(0);
    }

    /// Writes the remaining limits into an answer's headers.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        self.rates.write(headers);
    }

    /// The minimum for an answer without a count: the delivered pieces.
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
        self.rates.settle(self.taken, used, self.weight);
    }
}
