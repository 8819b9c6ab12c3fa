//! What a held request matched when it was last looked at.
//!
//! Whenever room appears, the machine decides about the first held requests again, and most of them
//! stay. Their prompts and, mostly, the caches are what they were, so the match is computed again only
//! where something that counts has changed. Decisions are the same as without it, to the last bit.

use crate::index::Recalled;

/// One request's.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    /// By replica.
    pub(crate) here: Recalled,
    /// By target of the snapshot.
    pub(crate) beyond: Recalled,
}
