//! A fixed hasher for maps keyed by one number: block hashes and request ids.
//!
//! One folded multiply spreads small ids (a trace's block numbers) as well as real hashes. It has
//! no random seed, so a map behaves the same in every run; it is no defence against chosen keys,
//! and nobody outside the process chooses these.

use core::hash::{BuildHasher, Hasher};
use meridian_base::mix;

/// Builds [`NumberHasher`]s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FixedState;

impl BuildHasher for FixedState {
    type Hasher = NumberHasher;
    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(0)
    }
}

/// Hashes the numbers written to it, in order.
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0, n);
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type NumberMap<K, V> = hashbrown::HashMap<K, V, FixedState>;
