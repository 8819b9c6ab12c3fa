//! A replica's cached prefixes and speed, as one gateway hands them to another.

use alloc::vec::Vec;

/// A chain, as its difference from the one sent before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Leading blocks that it has in common with the chain before.
    pub keep: u32,
    /// The blocks behind those.
    pub blocks: Vec<u64>,
}

/// One gateway's data about a replica that another does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holdings {
    /// Chains that it is expected to have cached, most recently used first.
    pub branches: Vec<Branch>,
    /// Its prefill time, ms a token, if measured from answers.
    pub ms_per_token: Option<f32>,
}

impl Holdings {
    /// Blocks of all chains.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.branches.iter().map(|branch| branch.blocks.len()).sum()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty() && self.ms_per_token.is_none()
    }
}
