//! The journal's ids of a prompt: one for each block of tokens, from the prompt's fingerprint.
//!
//! A fingerprint has a hash for each few bytes of a prompt, chained, so that equal hashes mean equal
//! prefixes, and keyed, so that only this fleet can compute them. The id of a block is the hash at its
//! last byte. The gateway does not know where a token ends, so it takes 512 tokens as a number of
//! bytes, which must not change: the same prefix would get other ids. The first answered prompt of at
//! least 512 tokens fixes it for its model, until the process ends; shorter ones have too much of the
//! chat template in them.
//!
//! Blocks do not end where hashes do, so a block takes the hash that ends nearest: equal ids mean equal
//! prefixes but for half a hash. A prompt whose tokens are shorter than usual has fewer ids than the
//! blocks that the engine counted; its end has none then.

use std::sync::atomic::{AtomicU32, Ordering};

use meridian_base::{Fingerprinter, ModelId, mix};

/// Tokens whose bytes are learned; also a block of the journal, unless its section says otherwise.
pub(crate) const SPAN_TOKENS: u32 = 512;
/// Models with their own number; further ones share one.
const MODELS: usize = 256;
/// The largest id: every JSON reader keeps it exactly.
const MASK: u64 = (1 << 53) - 1;

/// The size of the journal's blocks.
pub(crate) struct Spans {
    /// Bytes of [`SPAN_TOKENS`], by model; 0 until they are known.
    bytes: Vec<AtomicU32>,
    /// Tokens of a block.
    block_tokens: AtomicU32,
}

/// The blocks of one prompt.
pub(crate) struct Blocks {
    /// Tokens of a block, when the prompt arrived.
    pub(crate) tokens: u32,
    hashes: Vec<u64>,
    /// The bytes for each hash if they are the fingerprint's own; none if they are ids.
    block_bytes: Option<usize>,
}

impl Spans {
    pub(crate) fn new() -> Spans {
        let bytes = (0..MODELS).map(|_| AtomicU32::new(0)).collect();
        Spans { bytes, block_tokens: AtomicU32::new(SPAN_TOKENS) }
    }

    /// Prompts that arrive from now on have blocks of this many tokens.
    pub(crate) fn cut_at(&self, block_tokens: u32) {
        assert!(block_tokens > 0, "a block of the journal has tokens");
        self.block_tokens.store(block_tokens, Ordering::Relaxed);
    }

    /// Copies the ids of a prompt; until the bytes of a block are known, all its hashes.
    pub(crate) fn take(&self, model: ModelId, prompt: &Fingerprinter) -> Blocks {
        let (blocks, block_bytes) = (prompt.blocks(), prompt.block_bytes());
        let tokens = self.block_tokens.load(Ordering::Relaxed);
        let (hashes, block_bytes) = match self.slot(model).load(Ordering::Relaxed) {
            0 => (blocks.to_vec(), Some(block_bytes)),
            span => (pick(blocks, block_bytes, (span, tokens)), None),
        };
        Blocks { tokens, hashes, block_bytes }
    }

    /// Learns the bytes of a span from a prompt of `tokens` and `bytes`, if they are not known and the
    /// prompt is long enough to tell.
    pub(crate) fn learn(&self, model: ModelId, tokens: u32, bytes: u64) {
        if tokens < SPAN_TOKENS || bytes == 0 {
            return;
        }
        let ratio = (f64::from(tokens) / bytes as f64).clamp(0.05, 1.5);
        let span = (f64::from(SPAN_TOKENS) / ratio) as u32;
        assert!(span > 0, "0 stands for a span that is not known");
        // Another prompt may have been first.
        let slot = self.slot(model);
        let _ = slot.compare_exchange(0, span, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The ids of a prompt with `tokens`, at most one for each whole block. None while the bytes of a
    /// block are unknown.
    pub(crate) fn ids(&self, model: ModelId, blocks: Blocks, tokens: u32) -> Vec<u64> {
        let Blocks { tokens: block_tokens, hashes, block_bytes } = blocks;
        let span = self.slot(model).load(Ordering::Relaxed);
        let mut ids = match block_bytes {
            None => hashes,
            Some(_) if span == 0 => return Vec::new(),
            Some(block_bytes) => pick(&hashes, block_bytes, (span, block_tokens)),
        };
        ids.truncate((tokens / block_tokens) as usize);
        ids
    }

    fn slot(&self, model: ModelId) -> &AtomicU32 {
        &self.bytes[usize::from(model.0) % MODELS]
    }
}

/// The ids of all whole blocks of `tokens`, where [`SPAN_TOKENS`] have `span` bytes: each from the hash
/// that ends nearest to the block's last byte.
fn pick(hashes: &[u64], hash_bytes: usize, (span, tokens): (u32, u32)) -> Vec<u64> {
    let (bytes, of) = (span as usize * tokens as usize, SPAN_TOKENS as usize * hash_bytes);
    let ends = (1..).map(|n: usize| ((n * bytes + of / 2) / of).max(1));
    let found = ends.map_while(|end| hashes.get(end - 1));
    // A hash may be for more bytes than a block has, and then several ids come from one.
    found.enumerate().map(|(at, hash)| id(*hash, at)).collect()
}

fn id(hash: u64, at: usize) -> u64 {
    mix(hash, at as u64) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelId = ModelId(3);

    fn prompt(text: &str, block_bytes: usize) -> Fingerprinter {
        let mut prompt = Fingerprinter::new(7, 0, block_bytes);
        prompt.push(text.as_bytes());
        prompt
    }

    fn ids(spans: &Spans, text: &str, block_bytes: usize, tokens: u32) -> Vec<u64> {
        let blocks = spans.take(MODEL, &prompt(text, block_bytes));
        spans.ids(MODEL, blocks, tokens)
    }

    /// Text of which each 512 tokens have 2048 bytes and differ from all others.
    fn text(tokens: u32) -> String {
        (0..tokens).map(|n| format!("{n:04x}")).collect()
    }

    // Prompts with the same beginning have the same ids up to the block in which they differ,
    // whatever the size of the fingerprint's blocks. Ids fit into 53 bits.
    #[test]
    fn equal_prefixes_have_equal_ids() {
        for block_bytes in [16, 64, 100, 2048, 5000] {
            let spans = Spans::new();
            spans.learn(MODEL, 1000, 4000);
            let first = ids(&spans, &text(3000), block_bytes, 3000);
            let longer = ids(&spans, &text(6000), block_bytes, 6000);
            // The last block ends nearest to a hash of 5,000 bytes that the text has not.
            let most = if block_bytes == 5000 { 10 } else { 11 };
            assert_eq!((first.len(), longer.len()), (5, most), "{block_bytes}");
            let whole = |n: &usize| (n * 2048).div_ceil(block_bytes) <= 12_000 / block_bytes;
            let shared = (1..=5).filter(whole).count();
            assert!(shared >= 4, "{block_bytes}");
            assert_eq!(first[..shared], longer[..shared], "{block_bytes}");
            let other = ids(&spans, &format!("x{}", text(3000)), block_bytes, 3000);
            assert!(first.iter().all(|id| !other.contains(id) && *id <= MASK), "{block_bytes}");
        }
    }

    // Smaller blocks show where short prompts part; a prompt keeps the size at its arrival.
    #[test]
    fn smaller_blocks() {
        let spans = Spans::new();
        spans.learn(MODEL, 1000, 4000);
        let early = spans.take(MODEL, &prompt(&text(1024), 64));
        spans.cut_at(16);
        let (common, fork) = (text(100), |end: &str| format!("{}{end}", text(100)));
        let [first, other] =
            ["abcd", "wxyz"].map(|end| ids(&spans, &fork(&end.repeat(50)), 64, 150));
        assert_eq!((first.len(), ids(&spans, &common, 64, 100).len()), (9, 6));
        let shared = first.iter().zip(&other).take_while(|(a, b)| a == b).count();
        assert_eq!(shared, 6);
        assert_eq!((early.tokens, spans.ids(MODEL, early, 1024).len()), (512, 2));
    }

    // A prompt that arrived before the bytes were known gets the same ids as a later one.
    #[test]
    fn ids_of_the_first_prompt() {
        let spans = Spans::new();
        let early = spans.take(MODEL, &prompt(&text(2000), 64));
        assert_eq!(ids(&spans, &text(2000), 64, 2000), [0; 0]);
        spans.learn(MODEL, 2000, 8000);
        // Only the first prompt counts, and short ones never do.
        spans.learn(MODEL, 4000, 8000);
        let early = spans.ids(MODEL, early, 2000);
        assert_eq!((early.len(), &early), (3, &ids(&spans, &text(2000), 64, 2000)));
        let spans = Spans::new();
        spans.learn(MODEL, 511, 8000);
        assert_eq!(ids(&spans, &text(2000), 64, 2000), [0; 0]);
    }

    // There are no more ids than blocks that the engine counted, nor than the text has.
    #[test]
    fn counts_differ() {
        let spans = Spans::new();
        spans.learn(MODEL, 2048, 8192);
        for (counted, length) in [(0, 0), (511, 0), (512, 1), (1000, 1), (2048, 4), (9000, 4)] {
            let found = ids(&spans, &text(2048), 64, counted);
            assert_eq!(found.len(), length, "{counted}");
            let again = ids(&spans, &text(2048), 64, counted);
            assert_eq!(found, again);
        }
    }
}
