//! The prediction of a first token: when it comes, and how much of the prompt is cached there.

use meridian_base::PeerReplica;

/// The first token that one placement of a request promises.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FirstToken {
    /// Predicted time until it, ms.
    pub ms: f32,
    /// Prompt tokens expected in the cache there, weighted by the trust in that.
    pub matched_tokens: f32,
    /// Prefill time there, ms a token.
    pub ms_per_token: f32,
}

impl FirstToken {
    /// At a replica of a peer, with our own forwards to it ahead.
    pub(crate) fn at_peer(
        rtt_ms: f32,
        replica: &PeerReplica,
        own: f32,
        matched: f32,
        of: u32,
    ) -> Self {
        let matched_tokens = matched * replica.trust;
        let unmatched = (of as f32 - matched_tokens).max(0.0);
        let ms = rtt_ms + replica.ms_per_token * (replica.front_tokens + own + unmatched);
        FirstToken { ms, matched_tokens, ms_per_token: replica.ms_per_token }
    }

    /// GPU time that this placement does not spend on the prompt and the other one would, ms: the
    /// tokens matched beyond the other's, at the speed here.
    #[must_use]
    pub fn prefill_saved_ms(&self, other: &FirstToken) -> f32 {
        (self.matched_tokens - other.matched_tokens) * self.ms_per_token
    }

    /// Whether all of it is known.
    pub(crate) fn is_finite(&self) -> bool {
        self.ms.is_finite() && self.matched_tokens.is_finite() && self.ms_per_token.is_finite()
    }
}
