//! The paged KV cache: blocks of 16 tokens, shared by reference, found by hash, evicted oldest
//! first.
//!
//! A block is in one of three states. *Referenced*: it is in some sequence's table. *Cached*: no
//! sequence references it, but it still holds the keys and values of the prefix that its hash
//! names, and the next prompt with that prefix can reuse it. *Empty*: neither. Cached and empty
//! blocks are in one free list, empty ones in front. Taking a block from the front therefore evicts
//! the least recently used prefix, and only when no empty block is left. A sequence releases its
//! last block first, so the tail of a prefix is evicted before its head (vLLM v1's order;
//! PagedAttention, SOSP'23, and vLLM's automatic prefix caching). Memory grows with the blocks that
//! were ever used.
//!
//! The driver chains the hashes: a block's hash also names all blocks before it. A match is
//! therefore a walk from the first block to the first miss, and no tree is needed.
//!
//! Two sequences that compute the same block at the same time have one copy each; only the first is
//! in the index. The cache stores no tokens and copies nothing between tiers.

mod free;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use free::FreeList;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Tokens in one block.
pub const BLOCK_TOKENS: u32 = 16;

/// The number of whole blocks that `tokens` need, the last one perhaps in part.
#[must_use]
pub const fn blocks_for(tokens: u32) -> u32 {
    tokens.div_ceil(BLOCK_TOKENS)
}

/// One block, which is looked up by the `hash` of its contents.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    hash: u64,
    references: u32,
    named: bool,
}

/// All KV blocks of one replica: shared by reference, found by hash, evicted oldest first.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// The blocks that were ever used.
    blocks: Vec<Block>,
    /// The named blocks. Only the blocks store the hashes: a simulation runs many replicas, and
    /// every block of every request is looked up here.
    index: HashTable<u32>,
    free: FreeList,
    evictions: u64,
}

/// The index position of a block hash.
fn spread(hash: u64) -> u64 {
    meridian_base::mix(0, hash)
}

impl KvCache {
    /// A cache of `blocks` empty blocks. Allocates nothing: tables grow with the blocks in use.
    #[must_use]
    pub fn new(blocks: u32) -> KvCache {
        KvCache {
            blocks: Vec::new(),
            index: HashTable::new(),
            free: FreeList::full(blocks),
            evictions: 0,
        }
    }

    /// The block that `hash` names, if it is cached.
    fn find(&self, hash: u64) -> Option<u32> {
        let is_it = |block: &u32| self.blocks[*block as usize].hash == hash;
        self.index.find(spread(hash), is_it).copied()
    }

    /// Counts the leading `hashes` whose blocks are cached. Costs one lookup per match.
    #[must_use]
    pub fn matched(&self, hashes: &[u64]) -> u32 {
        hashes.iter().take_while(|hash| self.find(**hash).is_some()).count() as u32
    }

    /// References the leading blocks of `hashes` that are cached and appends them to the empty
    /// `table`, if a sequence of `blocks` blocks in all, including these, fits now. Returns how
    /// many they are; if it does not fit, returns `None` and changes nothing. Costs one lookup per
    /// match.
    #[must_use]
    pub fn share(&mut self, hashes: &[u64], blocks: u32, table: &mut Vec<u32>) -> Option<u32> {
        debug_assert!(table.is_empty(), "a sequence shares its first blocks");
        table.extend(hashes.iter().map_while(|hash| self.find(*hash)));
        let shared = table.len() as u32;
        let idle = |block: &&u32| self.blocks[**block as usize].references == 0;
        // A matched block that no sequence references is in the free list, and leaves it.
        let taken = blocks.saturating_sub(shared) + table.iter().filter(idle).count() as u32;
        if taken > self.free.len() {
            table.clear();
            return None;
        }
        for block in table {
            let entry = &mut self.blocks[*block as usize];
            if entry.references == 0 {
                self.free.remove(*block);
            }
            entry.references += 1;
        }
        Some(shared)
    }

    /// Grows `table` to `blocks` blocks, evicting as needed. If there are too few, returns false
    /// and changes nothing.
    #[must_use]
    pub fn grow(&mut self, table: &mut Vec<u32>, blocks: u32) -> bool {
        let fresh = blocks.saturating_sub(table.len() as u32);
        if fresh > self.free.len() {
            return false;
        }
        for _ in 0..fresh {
            let block = self.free.pop().expect("as many as needed were counted above");
            if block as usize == self.blocks.len() {
                self.blocks.push(Block::default());
            }
            let entry = &mut self.blocks[block as usize];
            entry.references = 1;
            if core::mem::take(&mut entry.named) {
                let hash = spread(entry.hash);
                let held = self.index.find_entry(hash, |held| *held == block);
                held.expect("a named block is in the index").remove();
                self.evictions += 1;
            }
            table.push(block);
        }
        true
    }

    /// Names the contents of a referenced block, so that later prompts find it. Does nothing if
    /// another block already has the same contents.
    pub fn name(&mut self, block: u32, hash: u64) {
        let Block { references, named, .. } = self.blocks[block as usize];
        assert!(references > 0, "only a referenced block has contents to name");
        let blocks = &self.blocks;
        let of = |held: &u32| blocks[*held as usize].hash;
        let place =
            self.index.entry(spread(hash), |held| of(held) == hash, |held| spread(of(held)));
        if let (false, Entry::Vacant(place)) = (named, place) {
            place.insert(block);
            self.blocks[block as usize] = Block { hash, references, named: true };
        }
    }

    /// Releases all blocks of `table` and empties it.
    pub fn release(&mut self, table: &mut Vec<u32>) {
        while let Some(block) = table.pop() {
            let entry = &mut self.blocks[block as usize];
            entry.references -= 1;
            match (entry.references, entry.named) {
                (0, true) => self.free.push_back(block),
                (0, false) => self.free.push_front(block),
                _ => {}
            }
        }
    }

    /// Total number of blocks.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.free.total()
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

    /// Checks the structure in O(blocks), given how often each block is in the live tables.
    ///
    /// # Panics
    ///
    /// When an invariant does not hold.
    pub fn check_invariants(&self, references: impl Iterator<Item = u32>) {
        let total = self.total() as usize;
        let mut counted = alloc::vec![0u32; total];
        for block in references {
            counted[block as usize] += 1;
        }
        let mut free = alloc::vec![false; total];
        for block in self.free.iter() {
            assert!(!free[block as usize], "block {block} stands twice in the free list");
            free[block as usize] = true;
        }
        assert_eq!(self.free.iter().count() as u32, self.free.len(), "length of the free list");
        let mut named = 0;
        for unused in self.blocks.len()..total {
            assert!(free[unused] && counted[unused] == 0, "block {unused} was never used");
        }
        for (id, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.references, counted[id], "references of block {id}");
            assert_eq!(block.references == 0, free[id], "block {id} is free when unreferenced");
            if block.named {
                named += 1;
                assert_eq!(self.find(block.hash), Some(id as u32), "block {id} is in the index");
            }
        }
        assert_eq!(named, self.index.len(), "the index holds no block without a name");
    }
}
