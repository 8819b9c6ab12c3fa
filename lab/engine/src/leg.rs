//! The part of a request that an engine serves when one engine prefills and another decodes.
//!
//! The engine that prefills computes the prompt and holds its KV blocks when the request ends,
//! until they are released or a lease expires. The engine that decodes allocates KV for the prompt
//! and waits until the driver reports that the missing blocks have arrived. The role belongs to the
//! request and not to the engine, as in vLLM.

use meridian_base::Duration;

/// What an engine does of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leg {
    /// All of it.
    #[default]
    Whole,
    /// The prompt. When the reply ends by itself or at its limit, the blocks stay held.
    Prefill {
        /// How long the blocks are held, unless renewed.
        lease: Duration,
    },
    /// The reply. The blocks of the prompt that are not cached come from another engine.
    Decode,
}
