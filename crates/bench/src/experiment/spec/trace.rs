//! A recorded load, as an experiment's file writes it.

use std::path::PathBuf;

use meridian_wire::config::Span;
use serde::{Deserialize, Serialize};

/// Recorded requests: an excerpt by its name, or a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// An excerpt that comes with the program.
    pub name: Option<String>,
    /// A trace or journal of one's own; gzip where it ends in .gz.
    pub file: Option<PathBuf>,
    /// The file's format, where its first line does not tell.
    pub format: Option<String>,
    /// Tokens of a block, where not the format's own.
    pub block_tokens: Option<u32>,
    /// How many times as fast as it was recorded.
    #[serde(default = "as_recorded")]
    pub speed: f64,
    /// Each region's share of the sessions; without, the regions that were recorded.
    pub share: Option<Vec<f64>>,
    /// The grid that arrivals were rounded to, to be spread over its steps.
    pub spread: Option<Span>,
    /// Leaves out what arrived before this.
    pub after: Option<Span>,
    /// The most requests to send.
    pub requests: Option<u64>,
    /// A request that shares more leading blocks than this with an earlier one is a later turn of
    /// its session, where the trace has no sessions.
    pub sessions_beyond: Option<usize>,
}

fn as_recorded() -> f64 {
    1.0
}
