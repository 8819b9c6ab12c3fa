//! The paged KV cache: blocks of 16 tokens, shared by reference, found by hash, evicted oldest
//! first.
//!
//! A block is in one of three states. *Referenced*: it is in some sequence's table. *Cached*: no
//! sequence references it, but it still holds the keys and values of the prefix that its hash
//! names, and the next prompt with that prefix can reuse it. *Empty*: neither. Taking a block
//! evicts the least recently used prefix, and only when no empty block is left. A sequence releases
//! its last block first, so the tail of a prefix is evicted before its head (vLLM v1's order;
//! PagedAttention, SOSP'23, and vLLM's automatic prefix caching).
//!
//! The driver chains the hashes: a block's hash also names all blocks before it. A match is
//! therefore a walk from the first block to the first miss, and no tree is needed. Blocks that one
//! sequence named after each other are one entry, a *run* (`runs.rs`), until another sequence
//! shares a part of it. Blocks without a name are only counted: one is as good as another.
//!
//! Two sequences that compute the same block at the same time have one copy each; only the first is
//! in the index. The cache stores no tokens and copies nothing between tiers.

mod runs;
mod table;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use runs::{At, Runs};
use table::Piece;
pub use table::Table;

/// Tokens in one block.
pub const BLOCK_TOKENS: u32 = 16;

/// The number of whole blocks that `tokens` need, the last one perhaps in part.
#[must_use]
pub const fn blocks_for(tokens: u32) -> u32 {
    tokens.div_ceil(BLOCK_TOKENS)
}

/// All KV blocks of one replica: shared by reference, found by hash, evicted oldest first.
#[derive(Clone, Debug)]
pub struct KvCache {
    runs: Runs,
    total: u32,
    /// Blocks that hold nothing.
    empty: u32,
    evictions: u64,
    /// Runs of a piece that is released, kept to reuse its memory.
    released: Vec<u32>,
}

impl KvCache {
    /// A cache of `blocks` empty blocks. Allocates nothing: memory grows with the prefixes cached.
    #[must_use]
    pub fn new(blocks: u32) -> KvCache {
        let (runs, released) = (Runs::default(), Vec::new());
        KvCache { runs, total: blocks, empty: blocks, evictions: 0, released }
    }

    /// Counts the leading `hashes` whose blocks are cached. Costs one lookup for each run.
    #[must_use]
    pub fn matched(&self, hashes: &[u64]) -> u32 {
        self.runs.walk(hashes, |_, _| {})
    }

    /// References the leading blocks of `hashes` that are cached and appends them to the empty
    /// `table`, if a sequence of `blocks` blocks in all, including these, fits now. Returns how
    /// many they are; if it does not fit, returns `None` and changes nothing. Costs one lookup for
    /// each run.
    #[must_use]
    pub fn share(&mut self, hashes: &[u64], blocks: u32, table: &mut Table) -> Option<u32> {
        assert!(table.is_empty(), "a sequence shares its first blocks");
        let pieces = &mut table.pieces;
        let shared = self.runs.walk(hashes, |run, count| pieces.push(Piece { run, count }));
        let idle = |piece: &&Piece| self.runs.is_idle(piece.run);
        // A matched block that no sequence references counts as free until now.
        let idle: u32 = pieces.iter().filter(idle).map(|piece| piece.count).sum();
        if blocks.saturating_sub(shared) + idle > self.free() {
            pieces.clear();
            return None;
        }
        let mut end = 0;
        for Piece { run, count } in pieces {
            end += *count;
            if *count < self.runs.len(*run) {
                self.runs.split(*run, *count, hashes[end as usize - 1]);
            }
            self.runs.reference(*run);
        }
        (table.blocks, table.offered) = (shared, shared);
        Some(shared)
    }

    /// Grows `table` to `blocks` blocks, evicting as needed. If there are too few, returns false
    /// and changes nothing.
    #[must_use]
    pub fn grow(&mut self, table: &mut Table, blocks: u32) -> bool {
        let fresh = blocks.saturating_sub(table.blocks);
        if fresh > self.free() {
            return false;
        }
        let evicted = fresh.saturating_sub(self.empty);
        self.empty -= fresh - evicted;
        self.runs.evict(evicted);
        self.evictions += u64::from(evicted);
        table.push_unnamed(fresh);
        table.blocks += fresh;
        true
    }

    /// Names the first `until` blocks of `table` by the leading `hashes`, so that later prompts
    /// find them. A block stays without a name if another one has the same contents, and each block
    /// is tried once.
    pub fn name(&mut self, table: &mut Table, hashes: &[u64], until: u32) {
        let from = table.offered;
        if until <= from {
            return;
        }
        assert!(until <= table.blocks, "only blocks of a table are named");
        table.offered = until;
        let (unnamed, rest) = (table.pop_unnamed(), table.blocks - until);
        table.push_unnamed(unnamed - rest - (until - from));
        let mut at = self.end(table, hashes, from);
        for block in from as usize..until as usize {
            let before = if block == 0 { 0 } else { hashes[block - 1] };
            at = self.runs.next(at, before, hashes[block]);
            match at {
                Some(_) => table.push_unnamed(1),
                None => at = Some(self.append(table, before, hashes[block])),
            }
        }
        table.push_unnamed(rest);
    }

    /// Where the block before block `from` of `table` is cached: in its last run, or in that of
    /// another sequence. Blocks from there on have no piece yet.
    fn end(&self, table: &Table, hashes: &[u64], from: u32) -> Option<At> {
        let unnamed = table.last_unnamed();
        let named = table.pieces.iter().rev().find(|piece| !piece.is_unnamed());
        let mut at = named.map(|piece| self.runs.last(piece.run, piece.count));
        for block in (from - unnamed) as usize..from as usize {
            let before = if block == 0 { 0 } else { hashes[block - 1] };
            at = self.runs.next(at, before, hashes[block]);
        }
        at
    }

    /// Names the next block of `table`, whose pieces end before it.
    fn append(&mut self, table: &mut Table, before: u64, hash: u64) -> At {
        if let Some(piece) = table.pieces.last_mut().filter(|piece| !piece.is_unnamed()) {
            let last = self.runs.last(piece.run, piece.count);
            if let Some(at) = self.runs.extend(last, hash) {
                piece.count += 1;
                return at;
            }
        }
        let at = self.runs.begin(before, hash);
        table.pieces.push(Piece { run: at.run, count: 1 });
        at
    }

    /// Releases all blocks of `table` and empties it.
    pub fn release(&mut self, table: &mut Table) {
        while let Some(piece) = table.pieces.pop() {
            if piece.is_unnamed() {
                self.empty += piece.count;
                continue;
            }
            self.released.extend(self.runs.of(piece));
            while let Some(run) = self.released.pop() {
                self.runs.release(run);
            }
        }
        (table.blocks, table.offered) = (0, 0);
    }

    /// Splits off the blocks of `table` from block `at` on, the first of whose `hashes` name its
    /// named blocks.
    #[must_use]
    pub fn split_off(&mut self, table: &mut Table, at: u32, hashes: &[u64]) -> Table {
        let mut rest = Table::default();
        let mut end = table.blocks;
        while end > at {
            let piece = table.pieces.pop().expect("the pieces have all blocks of the table");
            end -= piece.count;
            let stay = at.saturating_sub(end);
            if stay > 0 {
                table.pieces.push(Piece { count: stay, ..piece });
            }
            let run = match piece.is_unnamed() || stay == 0 {
                true => piece.run,
                false => self.runs.cut(piece, stay, hashes[at as usize - 1]),
            };
            rest.pieces.push(Piece { run, count: piece.count - stay });
        }
        rest.pieces.reverse();
        rest.blocks = table.blocks.saturating_sub(at);
        table.blocks -= rest.blocks;
        rest.offered = table.offered.saturating_sub(at);
        table.offered -= rest.offered;
        rest
    }

    /// Total number of blocks.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }

    fn free(&self) -> u32 {
        let free = self.empty + self.runs.idle();
        assert!(free <= self.total, "free blocks and those in use are all blocks");
        free
    }

    /// Blocks that some sequence references.
    #[must_use]
    pub fn referenced(&self) -> u32 {
        self.total - self.free()
    }

    /// Blocks in the index, referenced or not.
    #[must_use]
    pub fn indexed(&self) -> u32 {
        self.runs.blocks()
    }

    /// Prefix blocks evicted since the start.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Checks the structure in O(blocks), given the live tables.
    ///
    /// # Panics
    ///
    /// When an invariant does not hold.
    pub fn check_invariants<'a>(&self, tables: impl Iterator<Item = &'a Table>) {
        let mut unnamed = 0;
        let mut references = Vec::new();
        for table in tables {
            let counted: u32 = table.pieces.iter().map(|piece| piece.count).sum();
            assert_eq!(counted, table.blocks, "the pieces have all blocks of a table");
            assert!(table.offered <= table.blocks, "only blocks in a table are named");
            for piece in &table.pieces {
                assert!(piece.count > 0, "no piece is empty");
                match piece.is_unnamed() {
                    true => unnamed += piece.count,
                    false => references.extend(self.runs.of(*piece)),
                }
            }
        }
        let referenced = self.runs.check(references);
        assert_eq!(referenced + unnamed + self.free(), self.total, "every block is somewhere");
    }
}
