//! Ancestry: the earlier request that a request extends.
//!
//! It finds sessions in a trace that does not record them. A prompt that starts with an earlier
//! prompt's blocks, beyond an opening that all prompts share, is a later turn of that conversation.

use std::collections::HashMap;

use super::TraceRequest;

/// Stores the last owner of each block, by the hash of the prefix that ends with it.
pub(crate) struct Ancestry {
    // Two generations bound the memory: when the younger is full, it replaces the older.
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
    most: usize,
}

/// The match of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Leading blocks that were seen before.
    pub(crate) blocks: usize,
    /// The owner of the last of them.
    pub(crate) owner: Option<u64>,
}

impl Ancestry {
    /// Stores at least the last `most` blocks, and at most twice as many.
    pub(crate) fn new(most: usize) -> Ancestry {
        Ancestry { young: HashMap::new(), old: HashMap::new(), most }
    }

    /// The leading blocks of `request` that were seen before.
    pub(crate) fn matched(&self, request: &TraceRequest) -> Match {
        let mut found = Match { blocks: 0, owner: None };
        for block in request.chain() {
            let owner = self.young.get(&block).or_else(|| self.old.get(&block));
            let Some(&owner) = owner else { break };
            found = Match { blocks: found.blocks + 1, owner: Some(owner) };
        }
        found
    }

    /// Makes `owner` the last owner of all its blocks.
    pub(crate) fn own(&mut self, request: &TraceRequest, owner: u64) {
        for block in request.chain() {
            if self.young.len() >= self.most {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(block, owner);
        }
    }

    /// Number of different prefixes stored.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
