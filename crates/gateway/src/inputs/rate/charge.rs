//! What one request was charged.

use std::sync::Arc;

use http::header::HeaderMap;
use meridian_routing::Usage;

use super::Rates;

/// The tokens that a request was charged when it arrived; settled when this is dropped. Where nothing
/// is known of what it used, because its client hung up or the engine does not count, the charge
/// stands.
#[derive(Debug)]
pub(crate) struct Charge {
    rates: Arc<Rates>,
    taken: u32,
    used: u32,
    /// Nothing bounds the reply.
    unbounded: bool,
}

impl Charge {
    pub(super) fn new(rates: Arc<Rates>, taken: u32, unbounded: bool) -> Charge {
        Charge { rates, taken, used: taken, unbounded }
    }

    /// The engine counted.
    pub(crate) fn counted(&mut self, usage: Usage) {
        self.used = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        if self.unbounded {
            self.rates.learn(usage.completion_tokens);
        }
    }

    /// No engine worked on it: it was refused.
    pub(crate) fn nothing(&mut self) {
        self.used = 0;
    }

    /// Says in an answer's headers what is left.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        self.rates.write(headers);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.rates.settle(self.taken, self.used);
    }
}
