//! Prompts as block hashes, without their text.
//!
//! A simulator needs to know which prompts share a prefix, not their text. A prompt is a list of
//! segments, and equal ids start with equal text, so a block is named by the pieces of segments
//! that it covers: (id, offset, length) each. For any block size, two prompts have equal blocks
//! exactly where their text would be equal, and a token block of an engine (16 tokens, 64 bytes)
//! corresponds to a router's block of 64 bytes.

use meridian_base::mix;

use crate::Segment;

/// Hashes the whole blocks of a prompt made of `segments`, each chained to the one before it.
/// `scope` separates prompts that must not share (tenants, models); a partial last block is left
/// out. Appends to `out`.
///
/// # Panics
/// When `block_bytes` is 0.
pub fn content_blocks(
    segments: impl IntoIterator<Item = Segment>,
    block_bytes: u32,
    scope: u64,
    out: &mut Vec<u64>,
) {
    assert!(block_bytes > 0, "a block has at least one byte");
    let mut chain = mix(scope, u64::from(block_bytes));
    let mut block = chain;
    let mut room = block_bytes;
    for segment in segments {
        let mut offset = 0;
        while offset < segment.bytes {
            let take = room.min(segment.bytes - offset);
            // A block within one segment is the common case: one mix names it.
            block = mix(block, mix(segment.id, u64::from(offset) << 32 | u64::from(take)));
            offset += take;
            room -= take;
            if room == 0 {
                chain = block;
                out.push(chain);
                block = chain;
                room = block_bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn blocks(parts: &[(u64, u32)], block_bytes: u32) -> Vec<u64> {
        let segment =
            |(id, bytes): &(u64, u32)| Segment { role: Role::User, id: *id, bytes: *bytes };
        let mut out = Vec::new();
        content_blocks(parts.iter().map(segment), block_bytes, 7, &mut out);
        out
    }

    // A longer prompt starts with the blocks of the shorter one, up to where they differ; a partial
    // block is not counted.
    #[test]
    fn equal_beginnings_have_equal_blocks() {
        let short = blocks(&[(1, 100), (2, 92)], 64);
        let long = blocks(&[(1, 100), (2, 92), (3, 500)], 64);
        assert_eq!(short.len(), 3);
        assert_eq!(short, long[..3]);
        let other = blocks(&[(1, 100), (9, 92), (3, 500)], 64);
        assert_eq!(short[0], other[0]);
        assert_ne!(short[1], other[1], "the second block holds 28 bytes that differ");
        assert_ne!(short[2], other[2], "and all after it are chained to it");
    }

    // The same text has other names with another block size or scope.
    #[test]
    fn sizes_and_scopes_stay_apart() {
        assert_ne!(blocks(&[(1, 64)], 64)[0], blocks(&[(1, 64)], 32)[0]);
        let mut out = Vec::new();
        content_blocks([Segment { role: Role::User, id: 1, bytes: 64 }], 64, 8, &mut out);
        assert_ne!(out, blocks(&[(1, 64)], 64));
    }
}
