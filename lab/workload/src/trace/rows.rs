//! Mooncake's and Qwen-Bailian's JSON lines.
//!
//! Mooncake (kvcache-ai/Mooncake, FAST'25 traces): `timestamp` in milliseconds, `input_length`,
//! `output_length`, `hash_ids` of 512 tokens each, named by the whole prefix.
//!
//! Qwen-Bailian (alibaba-edu/qwen-bailian-usagetraces-anon): the same names, but `timestamp` in
//! seconds and blocks of 16 tokens, named by the block alone; `chat_id`, `parent_chat_id` (-1 at a
//! root), `turn` and `type` besides. The session is the root of a chat's parents.

use std::collections::HashMap;

use super::fields::Fields;
use super::{Fault, TraceRequest};

/// Chats whose session is stored: at least this many, at most twice.
const CHATS: usize = 1 << 20;

/// Parses a line of Mooncake's.
pub(crate) fn mooncake(line: &str, block_tokens: u32) -> Result<TraceRequest, Fault> {
    complete(common(&mut Fields::of(line)?, 1e6, block_tokens)?)
}

/// The fields that all JSON formats have in common; `nanos` is the unit of the time.
pub(crate) fn common(
    fields: &mut Fields<'_>,
    nanos: f64,
    block_tokens: u32,
) -> Result<TraceRequest, Fault> {
    let at = fields.time("timestamp", nanos)?;
    let input_tokens = fields.tokens("input_length", 1)?;
    let output_tokens = fields.tokens("output_length", 0)?;
    let hash_ids = fields.ids("hash_ids")?;
    let (n, all) = (hash_ids.len(), input_tokens.div_ceil(block_tokens));
    if n > all as usize {
        return Err(other_blocks(n, input_tokens, block_tokens));
    }
    let block_tokens = if hash_ids.is_empty() { 0 } else { block_tokens };
    let request = TraceRequest::new(at, input_tokens, output_tokens);
    Ok(TraceRequest { block_tokens, hash_ids, ..request })
}

/// A request with an id for each whole block, or with none at all.
fn complete(request: TraceRequest) -> Result<TraceRequest, Fault> {
    let TraceRequest { input_tokens, block_tokens, .. } = request;
    let (n, whole) = (request.hash_ids.len(), input_tokens.checked_div(block_tokens));
    match whole.is_some_and(|whole| n < whole as usize) {
        true => Err(other_blocks(n, input_tokens, block_tokens)),
        false => Ok(request),
    }
}

fn other_blocks(n: usize, input_tokens: u32, block_tokens: u32) -> Fault {
    let all = input_tokens.div_ceil(block_tokens);
    Fault::new(
        "hash_ids",
        format!("{n} long, where {input_tokens} tokens make {all} blocks of {block_tokens}"),
        "give the trace's own block size",
    )
}

/// The chats of a Qwen-Bailian trace and their sessions.
#[derive(Default)]
pub(crate) struct Chats {
    // Two generations bound the memory: when the younger is full, it replaces the older.
    young: HashMap<i64, i64>,
    old: HashMap<i64, i64>,
}

impl Chats {
    /// A line of the trace.
    pub(crate) fn line(&mut self, line: &str, block_tokens: u32) -> Result<TraceRequest, Fault> {
        let mut fields = Fields::of(line)?;
        let request = complete(common(&mut fields, 1e9, block_tokens)?)?;
        let chat = fields.whole("chat_id")?;
        let parent = fields.whole("parent_chat_id")?.filter(|&parent| parent >= 0);
        let turn = fields.whole("turn")?.and_then(|turn| u32::try_from(turn).ok());
        let session = chat.map(|chat| self.session(chat, parent)).map(i64::cast_unsigned);
        Ok(TraceRequest { session, parent: parent.map(i64::cast_unsigned), turn, ..request })
    }

    /// The session of a chat: its parent's, or its own number at a root. A parent from before the
    /// start of the trace is its own session.
    fn session(&mut self, chat: i64, parent: Option<i64>) -> i64 {
        let known = |id: i64| self.young.get(&id).or_else(|| self.old.get(&id)).copied();
        let session = parent.map_or(chat, |parent| known(parent).unwrap_or(parent));
        if self.young.len() >= CHATS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(chat, session);
        session
    }
}
