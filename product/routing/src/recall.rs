//! The cached prefix matches of a held request.
//!
//! Whenever capacity frees up, the machine decides about the first held requests again, and most of
//! them stay. Their prompts have not changed and the caches hardly, so a match is recomputed only
//! if a relevant part of the index has changed. Decisions are bit-for-bit the same as without it.

use crate::index::Recalled;

/// The cached matches of one request.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    /// By replica.
    pub(crate) here: Recalled,
    /// By target of the snapshot.
    pub(crate) beyond: Recalled,
}
