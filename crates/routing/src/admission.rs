//! Admission: when a replica may be given another request. Orthogonal to the policy.
//!
//! SkyWalker section 3.3 compares the first three; the fourth is ours, because a paged engine with
//! nothing waiting may still be full, and one with something waiting may only have spent its
//! step's token budget.

use crate::replica::Row;

/// An admission mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Push on arrival, always.
    Blind,
    /// SP-O: fewer than `max` outstanding requests, as counted here.
    Outstanding {
        /// The bound.
        max: u32,
    },
    /// SP-P: the engine reported nothing pending.
    Pending,
    /// KV fit: the prompt's unmatched tokens fit beside what is referenced, dispatched since the
    /// last report, and reserved for growth.
    PendingKv,
}

impl Admission {
    /// Its name in config and results.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Admission::Blind => "blind",
            Admission::Outstanding { .. } => "outstanding",
            Admission::Pending => "pending",
            Admission::PendingKv => "pending_kv",
        }
    }

    /// Whether a replica with this row has room for `unmatched` more prompt tokens.
    ///
    /// Under [`Admission::PendingKv`] an empty replica always has: a prompt larger than its KV
    /// cache is the engine's to refuse. Engines that tell their slots instead of their KV use
    /// (llama.cpp) have room while a slot is free; engines that tell nothing, while none of our
    /// dispatches is overdue.
    #[must_use]
    #[inline]
    pub fn has_room(&self, row: &Row, unmatched: f32) -> bool {
        match self {
            Admission::Blind => true,
            Admission::Outstanding { max } => row.outstanding < *max,
            Admission::Pending => row.reported_pending == 0,
            Admission::PendingKv => {
                let slot = row.free_slots > 0;
                let fits = if row.kv_free.is_finite() {
                    row.kv_free >= unmatched
                } else {
                    row.reported_pending == 0
                };
                (slot && fits) || row.outstanding == 0
            }
        }
    }
}
