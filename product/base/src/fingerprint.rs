//! Fingerprints: a prompt as a chain of block hashes.
//!
//! The prompt is cut into blocks of B bytes. Each block is hashed on its own, at memory speed, and
//! then chained to the one before it by a cheap mix. A block's hash therefore names the whole
//! prefix up to and including it, and two prompts share exactly as many leading hashes as they
//! share leading blocks. Hashes are keyed with the fleet's secret and chained from a scope (model,
//! adapter, cache salt, tenant), so equal text in two scopes gets different hashes.
//!
//! A fast hash with a secret seed keeps honest prompts apart, but does not stop an attacker who
//! knows the seed. Hashes that leave the process are rehashed elsewhere with a cryptographic key.

use alloc::vec::Vec;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline, rapidhash_v3_seeded};

/// Mixes two words into one: a folded 64x64 multiply, two cycles.
#[must_use]
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let m = u128::from(a ^ 0x2D35_8DCC_AA6C_78A5) * u128::from(b ^ 0x8BB8_4B93_962E_ACC9);
    (m as u64) ^ (m >> 64) as u64
}

/// Hashes `bytes` under `seed`: for keys (sessions, tenants) and scopes.
#[must_use]
pub fn keyed(seed: u64, bytes: &[u8]) -> u64 {
    rapidhash_v3_seeded(bytes, &RapidSecrets::seed(seed))
}

/// Cuts a stream of bytes into blocks and chains their hashes.
///
/// Feed it with [`push`](Self::push), in any number of pieces: only the bytes affect the result.
/// The last, incomplete block has no hash. To fingerprint the prefix of the next turn's prompt,
/// clone it and push the reply.
#[derive(Clone)]
pub struct Fingerprinter {
    secrets: RapidSecrets,
    block: usize,
    chain: u64,
    total: u64,
    tail: Vec<u8>,
    blocks: Vec<u64>,
}

impl Fingerprinter {
    /// An empty fingerprint in blocks of `block_bytes`, keyed by `seed`, within `scope`.
    ///
    /// # Panics
    ///
    /// When `block_bytes` is 0.
    #[must_use]
    pub fn new(seed: u64, scope: u64, block_bytes: usize) -> Fingerprinter {
        assert!(block_bytes > 0, "a block has at least one byte");
        Fingerprinter {
            secrets: RapidSecrets::seed(seed),
            block: block_bytes,
            chain: mix(seed, scope),
            total: 0,
            tail: Vec::with_capacity(block_bytes),
            blocks: Vec::new(),
        }
    }

    /// Reserves space for a prompt of about `bytes`, so that hashing it allocates once.
    pub fn reserve(&mut self, bytes: usize) {
        self.blocks.reserve(bytes / self.block);
    }

    /// Appends bytes to the prompt.
    pub fn push(&mut self, mut bytes: &[u8]) {
        assert!(self.tail.len() < self.block, "a tail is shorter than a block");
        self.total += bytes.len() as u64;
        if !self.tail.is_empty() {
            let take = (self.block - self.tail.len()).min(bytes.len());
            let (head, rest) = bytes.split_at(take);
            self.tail.extend_from_slice(head);
            bytes = rest;
            if self.tail.len() < self.block {
                return;
            }
            let hash = rapidhash_v3_seeded(&self.tail, &self.secrets);
            self.link(hash);
            self.tail.clear();
        }
        let rest = match self.block {
            64 => self.whole::<64>(bytes),
            _ => self.whole_of_any(bytes),
        };
        self.tail.extend_from_slice(rest);
        let hashed = self.blocks.len() as u64 * self.block as u64;
        assert!(
            hashed + self.tail.len() as u64 == self.total,
            "every byte is in one block, or in the tail"
        );
    }

    /// Hashes the whole blocks of the default size and returns the rest. With a constant length,
    /// the hash is a straight run of multiplications over several blocks at a time.
    fn whole<'a, const BLOCK: usize>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (whole, rest) = bytes.as_chunks::<BLOCK>();
        let (mut chain, secrets) = (self.chain, &self.secrets);
        self.blocks.extend(whole.iter().map(|block| {
            chain = mix(chain, rapidhash_v3_inline::<true, false, false>(block, secrets));
            chain
        }));
        self.chain = chain;
        rest
    }

    /// As [`whole`](Self::whole), for blocks of any size.
    fn whole_of_any<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let whole = bytes.chunks_exact(self.block);
        let rest = whole.remainder();
        self.blocks.reserve(whole.len());
        for block in whole {
            let hash = rapidhash_v3_seeded(block, &self.secrets);
            self.link(hash);
        }
        rest
    }

    #[inline]
    fn link(&mut self, hash: u64) {
        self.chain = mix(self.chain, hash);
        self.blocks.push(self.chain);
    }

    /// The chained hashes of the whole blocks so far.
    #[must_use]
    pub fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Takes the hashes out, ending the fingerprint.
    #[must_use]
    pub fn into_blocks(self) -> Vec<u64> {
        self.blocks
    }

    /// Bytes pushed so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.total
    }

    /// Bytes a block holds.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block
    }
}

/// The tail holds prompt text, so a debug print shows lengths only.
impl core::fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fingerprinter")
            .field("block", &self.block)
            .field("bytes", &self.total)
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn of(pieces: &[&[u8]]) -> Vec<u64> {
        let mut f = Fingerprinter::new(1, 2, 64);
        for p in pieces {
            f.push(p);
        }
        f.into_blocks()
    }

    // The hashes do not depend on how the prompt was split into pieces.
    #[test]
    fn pieces_leave_no_trace() {
        let text: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        let whole = of(&[&text]);
        assert_eq!(whole.len(), 15);
        for cut in [0, 1, 63, 64, 65, 500, 999, 1000] {
            assert_eq!(of(&[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
        }
        let bytewise: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(of(&bytewise), whole);
    }

    // A block's hash names the whole prefix: a change in the first byte changes every later hash,
    // a change in the last block changes only the last.
    #[test]
    fn a_hash_names_its_whole_prefix() {
        let a = [7u8; 256];
        let (mut first, mut last) = (a, a);
        first[0] ^= 1;
        last[255] ^= 1;
        let (ha, hf, hl) = (of(&[&a]), of(&[&first]), of(&[&last]));
        assert!(ha.iter().zip(&hf).all(|(x, y)| x != y));
        assert_eq!(ha[..3], hl[..3]);
        assert_ne!(ha[3], hl[3]);
    }

    // Seeds and scopes keep equal prompts apart.
    #[test]
    fn seeds_and_scopes_separate() {
        let make = |seed, scope| {
            let mut f = Fingerprinter::new(seed, scope, 64);
            f.push(&[9; 64]);
            f.into_blocks()[0]
        };
        assert_ne!(make(1, 1), make(2, 1));
        assert_ne!(make(1, 1), make(1, 2));
    }

    // A debug print must not show prompt text.
    #[test]
    fn debug_shows_no_text() {
        let mut f = Fingerprinter::new(1, 1, 64);
        f.push(b"my secret");
        assert!(!format!("{f:?}").contains("secret"));
    }
}
