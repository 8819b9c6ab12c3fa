//! The legs of requests whose prompt another replica computes.

use meridian_base::{ReplicaId, Time};

/// The prefill leg of an attempt, from its dispatch until the decode replica has the KV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    /// The prefill replica.
    pub(crate) from: ReplicaId,
    /// Prompt tokens matched and not matched there.
    pub(crate) matched: f32,
    pub(crate) unmatched: f32,
    /// Tokens ahead of it there, as `Active::in_front`.
    pub(crate) in_front: Option<f32>,
    /// Prompt tokens, and those that the decode replica lacks: they cross the network.
    pub(crate) prompt: f32,
    pub(crate) tokens: f32,
    /// When the prefill ended, and the tokens that then crossed the two replicas' links with ours.
    pub(crate) ended: Option<Time>,
    pub(crate) crossing: f32,
    /// Whether the decode replica then had prompts to compute first, or no room: the time until the
    /// first token is not that of the transfer.
    pub(crate) waits: bool,
}

/// The legs at one replica that its engine's counts of requests do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Legs {
    /// Requests that will come here after their prefill elsewhere, and their KV tokens.
    pub(crate) coming: u32,
    pub(crate) coming_tokens: f32,
    /// Requests sent here whose KV is still being fetched.
    pub(crate) fetching: u32,
    /// Prompts prefilled here whose KV has not been fetched, and their tokens.
    pub(crate) held: u32,
    pub(crate) held_tokens: f32,
    /// Tokens under way to or from here.
    pub(crate) moving_tokens: f32,
}

impl Legs {
    /// A request will come here after its prefill elsewhere.
    pub(crate) fn expect(&mut self, tokens: f32) {
        self.coming += 1;
        self.coming_tokens += tokens;
    }

    /// It came, or will not come.
    pub(crate) fn came(&mut self, tokens: f32) {
        assert!(self.coming > 0, "a request comes once after its prefill");
        self.coming -= 1;
        self.coming_tokens = rest(self.coming, self.coming_tokens - tokens);
    }

    /// A prompt was prefilled here, and another replica starts to fetch it.
    pub(crate) fn hold(&mut self, fetch: &Fetch) {
        self.held += 1;
        self.held_tokens += fetch.prompt;
        self.moving_tokens += fetch.tokens;
    }

    /// It was fetched, or will not be.
    pub(crate) fn release(&mut self, fetch: &Fetch) {
        assert!(self.held > 0, "the KV of a prompt is released once");
        self.held -= 1;
        self.held_tokens = rest(self.held, self.held_tokens - fetch.prompt);
        self.moving_tokens = rest(self.held + self.fetching, self.moving_tokens - fetch.tokens);
    }

    /// A request sent here starts to fetch its KV.
    pub(crate) fn fetch(&mut self, fetch: &Fetch) {
        self.fetching += 1;
        self.moving_tokens += fetch.tokens;
    }

    /// It has its KV, or failed.
    pub(crate) fn fetched(&mut self, fetch: &Fetch) {
        assert!(self.fetching > 0, "a fetch ends once");
        self.fetching -= 1;
        self.moving_tokens = rest(self.held + self.fetching, self.moving_tokens - fetch.tokens);
    }
}

/// A sum of floats of `n` parts; sums do not return to exactly zero.
fn rest(n: u32, sum: f32) -> f32 {
    if n == 0 { 0.0 } else { sum.max(0.0) }
}
