//! Traces: recorded requests as lengths, times and block ids, never text.
//!
//! Every format is read line by line into [`TraceRequest`]s ([`Reader`]), put in order and shaped
//! ([`Shape`]), and then counted ([`Stats`]), written again ([`Writer`]) or turned into programs
//! ([`to_programs`]) that a simulator or a load generator sends. The other way round, [`record`]
//! runs generators into a trace.
//!
//! A block id stands for the text of its block: prompts share the leading run of equal ids. It
//! follows that formats whose ids name one block (Qwen-Bailian) and those whose ids name the whole
//! prefix (Mooncake) are read alike. docs/workloads.md has every format field by field.

mod ancestry;
mod azure;
mod error;
mod fields;
mod journal;
mod lines;
mod order;
mod programs;
mod reader;
mod record;
mod reuse;
mod rows;
mod servegen;
mod shape;
mod spread;
mod stats;
mod tally;
mod write;

use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Time, mix};

use crate::{BYTES_PER_TOKEN, Role, Segment};

pub use error::{Fault, TraceError};
pub use programs::{ProgramOptions, Programs, to_programs};
pub use reader::{ReadOptions, Reader, Skipped};
pub use record::{Answers, Load, RecordOptions, Recording, record};
pub use servegen::{ServeGenRates, ServeGenReader};
pub use shape::{Shape, Shaped, shape};
pub use stats::{Extensions, Lengths, PrefixReuse, Stats, StatsOptions, Summary};
pub use write::Writer;

/// Longest prompt or reply that a trace may hold, in tokens.
pub const MAX_TOKENS: u32 = 1 << 28;

/// Largest block that a trace may use, in tokens.
pub const MAX_BLOCK_TOKENS: u32 = 1 << 20;

/// The largest block id that every JSON reader keeps exactly.
const ID_MASK: u64 = (1 << 53) - 1;

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrived, from the start of the trace.
    pub at: Time,
    /// Tokens of the prompt, from 1 to [`MAX_TOKENS`].
    pub input_tokens: u32,
    /// Tokens of the reply; 0 where none came.
    pub output_tokens: u32,
    /// Tokens of a block; 0 where the trace has no block ids.
    pub block_tokens: u32,
    /// One id a block, the last, part block included or left out; empty where nothing is known,
    /// and the prompt then shares nothing.
    pub hash_ids: Vec<u64>,
    /// The conversation it belongs to.
    pub session: Option<u64>,
    /// The request it answers to, in the trace's own numbers.
    pub parent: Option<u64>,
    /// The how-manieth request of its conversation, from 1.
    pub turn: Option<u32>,
    /// The region it came from.
    pub region: Option<Arc<str>>,
    /// Who is billed, as a hash.
    pub tenant: Option<u64>,
    /// What became of it.
    pub outcome: Option<Outcome>,
    /// Time to the first token at the client.
    pub ttft: Option<Duration>,
    /// Time to the last token at the client.
    pub e2e: Option<Duration>,
    /// The model asked for.
    pub model: Option<Arc<str>>,
    /// The routing policy in force.
    pub policy: Option<Arc<str>>,
}

/// What became of a request, in the words of the gateway's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete.
    Done,
    /// Refused as the client's mistake.
    ClientError,
    /// Turned away for want of room or of a replica.
    Rejected,
    /// It failed, and trying again did not help.
    Failed,
    /// The client went away.
    Cancelled,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 5] = [
        Outcome::Done,
        Outcome::ClientError,
        Outcome::Rejected,
        Outcome::Failed,
        Outcome::Cancelled,
    ];

    /// The word that stands in a journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::ClientError => "client_error",
            Outcome::Rejected => "rejected",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// A format of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Mooncake's JSON lines.
    Mooncake,
    /// The JSON lines of the Qwen-Bailian traces.
    Qwen,
    /// The CSV of the Azure LLM inference traces.
    Azure,
    /// Meridian's own JSON lines.
    Journal,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::Mooncake, Format::Qwen, Format::Azure, Format::Journal];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Mooncake => "mooncake",
            Format::Qwen => "qwen",
            Format::Azure => "azure",
            Format::Journal => "journal",
        }
    }

    /// What it holds, in one line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Format::Mooncake => "JSON lines: time in ms, lengths, prefix ids of 512 tokens",
            Format::Qwen => "JSON lines: time in s, lengths, chats and turns, ids of 16 tokens",
            Format::Azure => "CSV: time of day and lengths; nothing is shared",
            Format::Journal => "JSON lines: Mooncake's, with region, tenant, session and outcome",
        }
    }

    /// The format called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format whose files begin with `line`.
    #[must_use]
    pub fn of_first_line(line: &str) -> Option<Format> {
        let line = line.trim_start_matches('\u{feff}').trim_start();
        let has = |key: &str| line.contains(&format!("\"{key}\""));
        match line {
            _ if line.starts_with("TIMESTAMP,") => Some(Format::Azure),
            _ if !line.starts_with('{') => None,
            _ if has(journal::HEADER) => Some(Format::Journal),
            _ if has("chat_id") => Some(Format::Qwen),
            _ if has("input_length") => Some(Format::Mooncake),
            _ => None,
        }
    }

    /// The tokens of a block, where the format itself says so.
    #[must_use]
    pub fn block_tokens(self) -> Option<u32> {
        match self {
            Format::Mooncake => Some(512),
            Format::Qwen => Some(16),
            Format::Azure | Format::Journal => None,
        }
    }
}

impl TraceRequest {
    /// A request of `input_tokens` and `output_tokens` at `at`, of which nothing else is known.
    #[must_use]
    pub fn new(at: Time, input_tokens: u32, output_tokens: u32) -> TraceRequest {
        TraceRequest {
            at,
            input_tokens,
            output_tokens,
            block_tokens: 0,
            hash_ids: Vec::new(),
            session: None,
            parent: None,
            turn: None,
            region: None,
            tenant: None,
            outcome: None,
            ttft: None,
            e2e: None,
            model: None,
            policy: None,
        }
    }

    /// Its prompt: one segment a block id, equal ids being equal text, and what no id covers as
    /// text of its own, drawn from `unique`.
    #[must_use]
    pub fn segments(&self, unique: u64) -> Vec<Segment> {
        let mut left = self.input_tokens;
        let mut segments = Vec::with_capacity(self.hash_ids.len() + 1);
        for &id in &self.hash_ids {
            let tokens = left.min(self.block_tokens);
            left -= tokens;
            segments.push(text(id, tokens));
        }
        if left > 0 {
            segments.push(text(mix(unique, 0x0055_4E49_5155_45), left));
        }
        segments.retain(|segment| segment.bytes > 0);
        segments
    }

    /// The chained hash of each block: equal hashes are equal prefixes, whatever the format's ids.
    pub(crate) fn chain(&self) -> impl Iterator<Item = u64> + '_ {
        let start = u64::from(self.block_tokens);
        self.hash_ids.iter().scan(start, |chain, &id| {
            *chain = mix(*chain, id);
            Some(*chain)
        })
    }

    /// The same request with its prompt cut into blocks of `block_tokens`; what no id covers is
    /// drawn from `unique`. A prompt without ids stays without.
    #[must_use]
    pub fn in_blocks(mut self, block_tokens: u32, unique: u64) -> TraceRequest {
        let block_tokens = block_tokens.clamp(1, MAX_BLOCK_TOKENS);
        if !self.hash_ids.is_empty() && self.block_tokens != block_tokens {
            let (_, ids) = prompt_ids(self.segments(unique), block_tokens);
            self.hash_ids = ids;
            self.block_tokens = block_tokens;
        }
        self
    }
}

fn text(id: u64, tokens: u32) -> Segment {
    Segment { role: Role::User, id, bytes: tokens * BYTES_PER_TOKEN }
}

/// The tokens of a prompt, and one id for each of its blocks, a last part block included. The ids
/// name whole prefixes and fit any reader of JSON.
fn prompt_ids(segments: Vec<Segment>, block_tokens: u32) -> (u32, Vec<u64>) {
    let block_bytes = block_tokens * BYTES_PER_TOKEN;
    let bytes: u64 = segments.iter().map(|segment| u64::from(segment.bytes)).sum();
    let tokens = (bytes / u64::from(BYTES_PER_TOKEN)).clamp(1, u64::from(MAX_TOKENS)) as u32;
    // A filler completes the last block: equal rests make equal ids, and no whole block equals one
    // that is filled up.
    let rest = (bytes % u64::from(block_bytes)) as u32;
    let filler = Segment { role: Role::User, id: 0x4649_4C4C, bytes: block_bytes - rest };
    let mut ids = Vec::with_capacity(tokens.div_ceil(block_tokens) as usize + 1);
    crate::content_blocks(segments.into_iter().chain([filler]), block_bytes, 0, &mut ids);
    ids.truncate(tokens.div_ceil(block_tokens) as usize);
    ids.iter_mut().for_each(|id| *id &= ID_MASK);
    (tokens, ids)
}

#[cfg(test)]
mod tests;
