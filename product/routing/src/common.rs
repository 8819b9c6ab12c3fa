//! The figures of a decision that are those of the request and the region, not of one candidate.

/// The figures of a decision that are the same for every candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Common {
    /// Expected tokens of the request's reply.
    pub reply_tokens: f32,
    /// Other requests in the gateway's queue for each replica of the model.
    pub queued: f32,
    /// Share of the region's tokens that are used again, 0 to 1.
    pub reused: f32,
    /// How long the request has been queued so far, ms; zero on arrival.
    pub waited_ms: f32,
}
