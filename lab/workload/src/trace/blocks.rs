//! Prompts as block ids, for formats that also need an id for a partial last block.

use super::MAX_TOKENS;
use crate::{BYTES_PER_TOKEN, Role, Segment};

/// The largest block id that every JSON reader keeps exactly.
const ID_MASK: u64 = (1 << 53) - 1;

/// The tokens of a prompt, and one id for each of its blocks, including a partial last one. The ids
/// name whole prefixes and fit any JSON reader.
pub(crate) fn prompt_ids(segments: Vec<Segment>, block_tokens: u32) -> (u32, Vec<u64>) {
    let block_bytes = block_tokens * BYTES_PER_TOKEN;
    let bytes: u64 = segments.iter().map(|segment| u64::from(segment.bytes)).sum();
    let tokens = (bytes / u64::from(BYTES_PER_TOKEN)).clamp(1, u64::from(MAX_TOKENS)) as u32;
    // A filler completes the last block: equal remainders get equal ids, and no whole block equals
    // a filled one.
    let rest = (bytes % u64::from(block_bytes)) as u32;
    let filler = Segment { role: Role::User, id: 0x4649_4C4C, bytes: block_bytes - rest };
    let mut ids = Vec::with_capacity(tokens.div_ceil(block_tokens) as usize + 1);
    crate::content_blocks(segments.into_iter().chain([filler]), block_bytes, 0, &mut ids);
    ids.truncate(tokens.div_ceil(block_tokens) as usize);
    ids.iter_mut().for_each(|id| *id &= ID_MASK);
    (tokens, ids)
}
