//! A fault that was played.

use std::time::Instant;

/// Start and repair of a fault.
pub(super) struct Done {
    pub(super) kind: &'static str,
    /// Whether it may have silenced a gateway, or a link between gateways.
    pub(super) silences: bool,
    pub(super) from: Instant,
    pub(super) mended: Instant,
}
