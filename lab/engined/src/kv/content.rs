//! The bytes that stand for the KV of a block.
//!
//! A real engine's KV depends on every token up to the block's end. So do these bytes: they are
//! generated from the chained hash of the block. The engine that decodes generates the bytes of its
//! own prompt and compares, so KV of another prompt is detected.

use meridian_base::mix;

/// The bytes of one block: `bytes` of them.
pub(super) fn block(content: u64, bytes: usize) -> Vec<u8> {
    let words = bytes.div_ceil(8);
    let mut all = Vec::with_capacity(8 * words);
    for word in 0..words as u64 {
        all.extend_from_slice(&mix(content, word).to_le_bytes());
    }
    all.truncate(bytes);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    // Any two contents differ within the first 8 bytes, the least that is sent of a block.
    #[test]
    fn contents_differ() {
        assert_eq!(block(7, 20).len(), 20);
        assert_eq!(block(7, 20)[..8], block(7, 8));
        assert_ne!(block(7, 8), block(8, 8));
    }
}
