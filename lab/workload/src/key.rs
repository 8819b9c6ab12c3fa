//! Keys of programs: the client, and the number of its program.

use meridian_base::{Rng, mix};

/// Names one program of a run. Everything random in the program follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramKey {
    /// The seed of the run.
    pub seed: u64,
    /// The client's region.
    pub region: u32,
    /// The client within its region.
    pub client: u32,
    /// The number of this program among the client's, from 0.
    pub ordinal: u64,
}

impl ProgramKey {
    /// The program's own random generator; `path` names a part of it (a node, a choice of shape).
    #[must_use]
    pub fn rng(self, path: u64) -> Rng {
        Rng::new(self.id()).fork(path)
    }

    /// A number that identifies the program: its session key.
    #[must_use]
    pub fn id(self) -> u64 {
        let who = u64::from(self.region) << 32 | u64::from(self.client);
        mix(mix(mix(self.seed, 0x0050_524F_4752_414D), who), self.ordinal)
    }

    /// An id for text that every program of the run shares, distinguished by `tag`.
    #[must_use]
    pub fn shared(self, tag: u64) -> u64 {
        mix(mix(self.seed, 0x5348_4152_4544), tag)
    }
}
