//! Traces: recorded requests as lengths, times and block ids, never text.
//!
//! Every format is read line by line into [`TraceRequest`]s ([`Reader`]), sorted and shaped
//! ([`Shape`]), and then counted ([`Stats`]), written ([`Writer`]) or turned into programs
//! ([`to_programs`]) that a simulator or a load generator sends. In the other direction,
//! [`record()`] writes a generator's requests to a trace.
//!
//! A block id stands for the text of its block: prompts share the leading run of equal ids. Formats
//! whose ids name one block (Qwen-Bailian) and those whose ids name the whole prefix (Mooncake) can
//! therefore be read in the same way. lab/docs/workloads.md has every format field by field.

mod ancestry;
mod azure;
mod blocks;
mod error;
mod excerpt;
mod fields;
mod format;
mod journal;
mod lines;
mod order;
mod programs;
mod reader;
mod record;
mod request;
mod reuse;
mod rows;
mod servegen;
mod shape;
mod spread;
mod stats;
mod tally;
mod texts;
mod write;

pub use error::{Fault, TraceError};
pub use excerpt::{EXCERPTS, Excerpt, find_excerpt};
pub use fields::is_name;
pub use format::Format;
pub use programs::{ProgramOptions, Programs, to_programs};
pub use reader::{ReadOptions, Reader, Skipped};
pub use record::{Answers, Load, RecordOptions, Recording, record};
pub use request::{Compared, Outcome, Shadowed, TraceRequest};
pub use servegen::{ServeGenRates, ServeGenReader};
pub use shape::{Shape, Shaped, shape, start_of};
pub use stats::{Extensions, Lengths, PrefixReuse, Stats, StatsOptions, Summary};
pub use write::Writer;

/// Longest prompt or reply that a trace may hold, in tokens.
pub const MAX_TOKENS: u32 = 1 << 24;

/// Largest block that a trace may use, in tokens.
pub const MAX_BLOCK_TOKENS: u32 = 1 << 20;
