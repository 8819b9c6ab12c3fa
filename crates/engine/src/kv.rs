//! The paged KV cache: blocks of 16 tokens, shared by reference, found by hash, evicted oldest
//! first.
//!
//! A block is in one of three states. *Referenced*: some sequence's table names it. *Cached*:
//! nobody references it, but it still holds the keys and values of the prefix that its hash names,
//! and the next prompt with that prefix takes it back for nothing. *Empty*: neither. Cached and
//! empty blocks wait in one free list, empty ones in front; taking a block from the front therefore
//! evicts the least recently used prefix, and only when nothing empty is left. A sequence gives its
//! blocks back last block first, so the tail of a prefix goes before its head (vLLM v1's order;
//! PagedAttention, SOSP'23, and vLLM's automatic prefix caching).
//!
//! Hashes are chained by whoever made them: a block's hash names all that is before it as well. So
//! a match is a walk from the first block to the first miss, and there is no tree to keep.
//!
//! Two sequences that compute the same block at the same time hold one copy each; only the first is
//! in the index. The cache holds no tokens and copies nothing between tiers.

mod free;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use free::FreeList;
use meridian_base::Seeded;

/// By block hash or request id.
pub(crate) type NumberMap<K, V> = hashbrown::HashMap<K, V, Seeded>;

/// Tokens in one block.
pub const BLOCK_TOKENS: u32 = 16;

/// The number of whole blocks that `tokens` need, the last one perhaps in part.
#[must_use]
pub const fn blocks_for(tokens: u32) -> u32 {
    tokens.div_ceil(BLOCK_TOKENS)
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    references: u32,
    hash: Option<u64>,
}

/// All KV blocks of one replica: shared by reference, found by hash, evicted oldest first.
#[derive(Clone, Debug)]
pub struct KvCache {
    blocks: Vec<Block>,
    index: NumberMap<u64, u32>,
    free: FreeList,
    evictions: u64,
}

impl KvCache {
    /// A cache of `blocks` empty blocks. All memory is taken here.
    #[must_use]
    pub fn new(blocks: u32) -> KvCache {
        KvCache {
            blocks: alloc::vec![Block::default(); blocks as usize],
            index: NumberMap::with_capacity_and_hasher(blocks as usize, Seeded::default()),
            free: FreeList::full(blocks),
            evictions: 0,
        }
    }

    /// Counts the leading `hashes` whose blocks are held. Costs one lookup a match.
    #[must_use]
    pub fn matched(&self, hashes: &[u64]) -> u32 {
        hashes.iter().take_while(|hash| self.index.contains_key(*hash)).count() as u32
    }

    /// Whether a sequence of `blocks` blocks in all, the leading `shared` of them held already,
    /// fits now.
    #[must_use]
    pub fn fits(&self, shared: &[u64], blocks: u32) -> bool {
        let fresh = blocks.saturating_sub(shared.len() as u32);
        if fresh > self.free.len() {
            return false;
        }
        let idle = shared.iter().filter(|hash| self.is_idle(**hash)).count() as u32;
        fresh + idle <= self.free.len()
    }

    fn is_idle(&self, hash: u64) -> bool {
        self.index.get(&hash).is_some_and(|&block| self.blocks[block as usize].references == 0)
    }

    /// References the blocks of `hashes` and appends them to `table`.
    ///
    /// # Panics
    /// When one of them is not held: call [`matched`](Self::matched) first.
    pub fn share(&mut self, hashes: &[u64], table: &mut Vec<u32>) {
        for hash in hashes {
            let block = *self.index.get(hash).expect("shared hashes were matched just before");
            if self.blocks[block as usize].references == 0 {
                self.free.remove(block);
            }
            self.blocks[block as usize].references += 1;
            table.push(block);
        }
    }

    /// Grows `table` to `blocks` blocks, evicting as needed. Returns false, and changes nothing,
    /// when there are too few.
    #[must_use]
    pub fn grow(&mut self, table: &mut Vec<u32>, blocks: u32) -> bool {
        let fresh = blocks.saturating_sub(table.len() as u32);
        if fresh > self.free.len() {
            return false;
        }
        for _ in 0..fresh {
            let block = self.free.pop().expect("as many as needed were counted above");
            let entry = &mut self.blocks[block as usize];
            if let Some(hash) = entry.hash.take() {
                self.index.remove(&hash);
                self.evictions += 1;
            }
            entry.references = 1;
            table.push(block);
        }
        true
    }

    /// Names the contents of a referenced block, so that later prompts find it. Does nothing when
    /// another block holds the same already.
    pub fn name(&mut self, block: u32, hash: u64) {
        let entry = &mut self.blocks[block as usize];
        assert!(entry.references > 0, "only a referenced block has contents to name");
        if entry.hash.is_some() || self.index.contains_key(&hash) {
            return;
        }
        entry.hash = Some(hash);
        self.index.insert(hash, block);
    }

    /// Gives all blocks of `table` back and empties it.
    pub fn release(&mut self, table: &mut Vec<u32>) {
        while let Some(block) = table.pop() {
            let entry = &mut self.blocks[block as usize];
            entry.references -= 1;
            match (entry.references, entry.hash) {
                (0, Some(_)) => self.free.push_back(block),
                (0, None) => self.free.push_front(block),
                _ => {}
            }
        }
    }

    /// Blocks in all.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Blocks that some sequence references.
    #[must_use]
    pub fn referenced(&self) -> u32 {
        self.total() - self.free.len()
    }

    /// Blocks in the index, referenced or not.
    #[must_use]
    pub fn indexed(&self) -> u32 {
        self.index.len() as u32
    }

    /// Prefix blocks evicted since the start.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Checks the structure in O(blocks), given how often each block stands in the live tables.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self, references: impl Iterator<Item = u32>) {
        let mut counted = alloc::vec![0u32; self.blocks.len()];
        for block in references {
            counted[block as usize] += 1;
        }
        let mut free = alloc::vec![false; self.blocks.len()];
        for block in self.free.iter() {
            assert!(!free[block as usize], "block {block} stands twice in the free list");
            free[block as usize] = true;
        }
        assert_eq!(self.free.iter().count() as u32, self.free.len(), "length of the free list");
        let mut hashed = 0;
        for (id, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.references, counted[id], "references of block {id}");
            assert_eq!(block.references == 0, free[id], "block {id} is free when unreferenced");
            if let Some(hash) = block.hash {
                hashed += 1;
                assert_eq!(self.index.get(&hash), Some(&(id as u32)), "block {id} is in the index");
            }
        }
        assert_eq!(hashed, self.index.len(), "the index names no block without a hash");
    }
}
