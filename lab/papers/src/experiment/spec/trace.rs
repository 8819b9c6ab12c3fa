//! A recorded load in an experiment's file.

use std::path::PathBuf;

use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

/// Recorded requests: an excerpt by its name, or a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// A built-in excerpt.
    pub name: Option<String>,
    /// A user's trace or journal; gzip if its name ends in .gz.
    pub file: Option<PathBuf>,
    /// The file's format, if its first line does not show it.
    pub format: Option<String>,
    /// Tokens of a block, if different from the format's own.
    pub block_tokens: Option<u32>,
    /// Speed-up over the recording.
    #[serde(default = "as_recorded")]
    pub speed: f64,
    /// Each region's share of the sessions; by default the recorded regions.
    pub share: Option<Vec<f64>>,
    /// The grid that arrivals were rounded to, over whose steps they are spread.
    pub spread: Option<Span>,
    /// Drops requests that arrived before this.
    pub after: Option<Span>,
    /// The most requests to send.
    pub requests: Option<u64>,
    /// A request that shares more leading blocks than this with an earlier one is a later turn of
    /// its session, if the trace has no sessions.
    pub sessions_beyond: Option<usize>,
}

fn as_recorded() -> f64 {
    1.0
}
