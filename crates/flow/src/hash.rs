//! A hasher for ids, seeded by the machine's seed and by nothing else.

use core::hash::{BuildHasher, Hasher};
use meridian_base::mix;

/// Builds [`IdHasher`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl BuildHasher for Seeded {
    type Hasher = IdHasher;
    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

/// One folded multiply a number.
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
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

pub(crate) type IdMap = hashbrown::HashMap<u64, u32, Seeded>;
