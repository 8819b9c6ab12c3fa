//! Prompts as block ids, for formats that want an id for the last, part block too.

use super::MAX_TOKENS;
use crate::{BYTES_PER_TOKEN, Role, Segment};

/// The largest block id that every JSON reader keeps exactly.
const ID_MASK: u64 = (1 << 53) - 1;

/// The tokens of a prompt, and one id for each of its blocks, a last part block included. The ids
/// name whole prefixes and fit any reader of JSON.
pub(crate) fn prompt_ids(segments: Vec<Segment>, block_tokens: u32) -> (u32, Vec<u64>) {
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
