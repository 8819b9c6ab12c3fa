//! A row of the table of two fleets.

use serde::Serialize;

/// One of two fleets with the same clients, as they measured it in the last seconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SideRow {
    pub(super) name: &'static str,
    /// Whether the page is this fleet's.
    pub(super) here: bool,
    /// The URL of its page.
    pub(super) page: String,
    pub(super) ttft_p50_ms: Option<f64>,
    pub(super) ttft_p90_ms: Option<f64>,
    pub(super) ttft_p99_ms: Option<f64>,
    pub(super) answers_per_s: f64,
    /// Cached share of the prompt tokens.
    pub(super) cached: Option<f64>,
    pub(super) running: u64,
}
