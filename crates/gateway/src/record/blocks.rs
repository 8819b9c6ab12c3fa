//! The journal's ids of a prompt: one for each 512 tokens, from the prompt's fingerprint.
//!
//! A fingerprint has a hash for each few bytes of a prompt, chained, so that equal hashes mean equal
//! prefixes, and keyed, so that only this fleet can compute them. The id of 512 tokens is the hash
//! at their last byte. The gateway does not know where a token ends, so it takes 512 tokens as a
//! number of bytes, which must not change: the same prefix would get other ids. The first answered
//! prompt of at least 512 tokens fixes it for its model, until the process ends.
//!
//! A journal's reader requires an id for each 512 tokens that the engine counted. A prompt whose
//! tokens are shorter than usual has fewer ids than that, and the missing ones are derived from the
//! whole prompt: only the same prompt shares them.

use std::sync::atomic::{AtomicU32, Ordering};

use meridian_base::{Fingerprinter, ModelId, mix};

/// Tokens for which a prompt has one id.
pub(super) const BLOCK_TOKENS: u32 = 512;
/// Models with their own number; further ones share one.
const MODELS: usize = 256;
/// The largest id: every JSON reader keeps it exactly.
const MASK: u64 = (1 << 53) - 1;

/// Bytes of prompt for each id, by model; 0 until it is known.
pub(super) struct Spans(Vec<AtomicU32>);

/// The blocks of one prompt.
pub(super) struct Blocks {
    hashes: Vec<u64>,
    /// The bytes for each hash if they are the fingerprint's own; none if they are ids.
    block_bytes: Option<usize>,
    /// Identifies the whole prompt.
    whole: u64,
}

impl Spans {
    pub(super) fn new() -> Spans {
        Spans((0..MODELS).map(|_| AtomicU32::new(0)).collect())
    }

    /// Copies the ids of a prompt; until the bytes of an id are known, all its blocks.
    pub(super) fn take(&self, model: ModelId, prompt: &Fingerprinter) -> Blocks {
        let (blocks, block_bytes) = (prompt.blocks(), prompt.block_bytes());
        let whole = mix(blocks.last().copied().unwrap_or(0), prompt.bytes());
        match self.slot(model).load(Ordering::Relaxed) {
            0 => Blocks { hashes: blocks.to_vec(), block_bytes: Some(block_bytes), whole },
            span => Blocks { hashes: pick(blocks, block_bytes, span), block_bytes: None, whole },
        }
    }

    /// Learns the bytes of an id from a prompt of `tokens` and `bytes`, if they are not known and
    /// the prompt is long enough to tell.
    pub(super) fn learn(&self, model: ModelId, tokens: u32, bytes: u64) {
        if tokens < BLOCK_TOKENS || bytes == 0 {
            return;
        }
        let ratio = (f64::from(tokens) / bytes as f64).clamp(0.05, 1.5);
        let span = (f64::from(BLOCK_TOKENS) / ratio) as u32;
        // Another prompt may have been first.
        let slot = self.slot(model);
        let _ = slot.compare_exchange(0, span, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The ids of a prompt with `tokens`: one for each whole 512 tokens. None while the bytes of an
    /// id are unknown.
    pub(super) fn ids(&self, model: ModelId, blocks: Blocks, tokens: u32) -> Vec<u64> {
        let Blocks { hashes, block_bytes, whole } = blocks;
        let span = self.slot(model).load(Ordering::Relaxed);
        let mut ids = match block_bytes {
            None => hashes,
            Some(_) if span == 0 => return Vec::new(),
            Some(block_bytes) => pick(&hashes, block_bytes, span),
        };
        let most = (tokens / BLOCK_TOKENS) as usize;
        ids.truncate(most);
        ids.extend((ids.len()..most).map(|at| id(whole, at)));
        ids
    }

    fn slot(&self, model: ModelId) -> &AtomicU32 {
        &self.0[usize::from(model.0) % MODELS]
    }
}

/// The ids of all whole spans: each from the block in which its last byte is.
fn pick(blocks: &[u64], block_bytes: usize, span: u32) -> Vec<u64> {
    let span = span as usize;
    let ends = (1..).map(|n: usize| (n * span).div_ceil(block_bytes));
    let hashes = ends.map_while(|end| blocks.get(end - 1));
    // Blocks may be longer than spans, and then several ids come from one.
    hashes.enumerate().map(|(at, hash)| id(*hash, at)).collect()
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
            assert_eq!((first.len(), longer.len()), (5, 11), "{block_bytes}");
            let whole = |n: &usize| (n * 2048).div_ceil(block_bytes) <= 12_000 / block_bytes;
            let shared = (1..=5).filter(whole).count();
            assert!(shared >= 4, "{block_bytes}");
            assert_eq!(first[..shared], longer[..shared], "{block_bytes}");
            let other = ids(&spans, &format!("x{}", text(3000)), block_bytes, 3000);
            assert!(first.iter().all(|id| !other.contains(id) && *id <= MASK), "{block_bytes}");
        }
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

    // There are as many ids as the reader of a journal requires, whatever the engine counted.
    #[test]
    fn counts_differ() {
        let spans = Spans::new();
        spans.learn(MODEL, 2048, 8192);
        for (counted, length) in [(0, 0), (511, 0), (512, 1), (1000, 1), (2048, 4), (9000, 17)] {
            let found = ids(&spans, &text(2048), 64, counted);
            assert_eq!(found.len(), length, "{counted}");
            let again = ids(&spans, &text(2048), 64, counted);
            assert_eq!(found, again);
        }
    }
}
