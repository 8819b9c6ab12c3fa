//! A sequence's blocks, as pieces: runs, and numbers of blocks without a name.

use alloc::vec::Vec;

/// In place of a run: the blocks have no name.
const UNNAMED: u32 = u32::MAX;

/// Consecutive blocks of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The run that they begin with. A run that was split continues in its rest.
    pub(super) run: u32,
    pub(super) count: u32,
}

impl Piece {
    pub(super) fn is_unnamed(self) -> bool {
        self.run == UNNAMED
    }
}

/// The KV blocks of one sequence, in the order of its tokens.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(super) pieces: Vec<Piece>,
    pub(super) blocks: u32,
    /// Leading blocks that were shared or offered to the index.
    pub(super) offered: u32,
}

impl Table {
    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.blocks
    }

    /// Whether it has no block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Appends a piece of blocks without a name; the number of blocks is the caller's.
    pub(super) fn push_unnamed(&mut self, count: u32) {
        match self.pieces.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.is_unnamed() => last.count += count,
            _ => self.pieces.push(Piece { run: UNNAMED, count }),
        }
    }

    /// Removes the last piece if its blocks have no name. Returns how many they were.
    pub(super) fn pop_unnamed(&mut self) -> u32 {
        let count = self.last_unnamed();
        self.pieces.truncate(self.pieces.len() - usize::from(count > 0));
        count
    }

    /// The blocks of the last piece, if they have no name.
    pub(super) fn last_unnamed(&self) -> u32 {
        self.pieces.last().filter(|last| last.is_unnamed()).map_or(0, |last| last.count)
    }
}
