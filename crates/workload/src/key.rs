//! Names of programs: who asks, and for the how-manieth time.

use meridian_base::{Rng, mix};

/// Names one program of a run. Everything random in the program follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramKey {
    /// The seed of the run.
    pub seed: u64,
    /// The region that the client stands in.
    pub region: u32,
    /// The client within its region.
    pub client: u32,
    /// The how-manieth program of that client, from 0.
    pub ordinal: u64,
}

impl ProgramKey {
    /// Chance of the program's own; `path` names a part of it (a node, a choice of shape).
    #[must_use]
    pub fn rng(self, path: u64) -> Rng {
        Rng::new(self.id()).fork(path)
    }

    /// A number that stands for the program: its session key.
    #[must_use]
    pub fn id(self) -> u64 {
        let who = u64::from(self.region) << 32 | u64::from(self.client);
        mix(mix(mix(self.seed, 0x0050_524F_4752_414D), who), self.ordinal)
    }

    /// An id for text that every program of the run shares, told apart by `tag`.
    #[must_use]
    pub fn shared(self, tag: u64) -> u64 {
        mix(mix(self.seed, 0x5348_4152_4544), tag)
    }
}
