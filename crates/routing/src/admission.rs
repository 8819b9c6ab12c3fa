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

    /// The most unmatched prompt tokens that a replica with this row has room for; negative when
    /// it has none at all.
    ///
    /// Under [`Admission::PendingKv`] an empty replica always has room: a prompt larger than its KV
    /// cache is the engine's to refuse. Engines that tell their slots instead of their KV use
    /// (llama.cpp) have room while a slot is free; engines that tell nothing, while none of our
    /// dispatches is overdue.
    #[must_use]
    pub fn room(&self, row: &Row) -> f32 {
        let all_or_none = |all: bool| if all { f32::INFINITY } else { -1.0 };
        match self {
            Admission::Blind => f32::INFINITY,
            Admission::Outstanding { max } => all_or_none(row.outstanding < *max),
            Admission::Pending => all_or_none(row.reported_pending == 0),
            Admission::PendingKv if row.outstanding == 0 => f32::INFINITY,
            Admission::PendingKv if row.free_slots == 0 => -1.0,
            Admission::PendingKv if row.kv_free.is_finite() => row.kv_free,
            Admission::PendingKv => all_or_none(row.reported_pending == 0),
        }
    }
}
