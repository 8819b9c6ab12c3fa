//! Admission: when a replica may be given another request. Orthogonal to the policy.
//!
//! SkyWalker section 3.3 compares the first three; the fourth is ours, because a paged engine with
//! nothing waiting may still be full, and one with something waiting may only have spent its
//! step's token budget.

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
}
