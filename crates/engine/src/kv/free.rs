//! The free list, in the order of reuse: empty blocks, then those never used, then cached ones.
//!
//! Empty blocks are a stack. Blocks that were never used need no memory: they are taken by number.
//! Cached blocks are a doubly linked list in an array, so that removing one from the middle takes
//! constant time. Memory grows with the highest block that was ever used: most of a large fleet's
//! replicas never fill their KV.

use alloc::vec::Vec;

/// No block.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// Block numbers in order of reuse: the front goes first.
#[derive(Clone, Debug)]
pub(super) struct FreeList {
    /// The last goes first.
    empty: Vec<u32>,
    /// The first block that was never used, and the number of all blocks.
    fresh: u32,
    total: u32,
    /// Of the cached blocks, by block.
    links: Vec<Link>,
    front: u32,
    back: u32,
    cached: u32,
}

impl FreeList {
    /// All of `total` blocks, in order.
    pub(super) fn full(total: u32) -> FreeList {
        FreeList {
            empty: Vec::new(),
            fresh: 0,
            total,
            links: Vec::new(),
            front: NONE,
            back: NONE,
            cached: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.empty.len() as u32 + (self.total - self.fresh) + self.cached
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Adds a cached block, which is reused last.
    pub(super) fn push_back(&mut self, block: u32) {
        self.links[block as usize] = Link { before: self.back, after: NONE };
        match self.back {
            NONE => self.front = block,
            back => self.links[back as usize].after = block,
        }
        self.back = block;
        self.cached += 1;
    }

    /// Adds an empty block, which is reused first.
    pub(super) fn push_front(&mut self, block: u32) {
        self.empty.push(block);
    }

    /// Removes a cached block, which must be in the list.
    pub(super) fn remove(&mut self, block: u32) {
        let Link { before, after } = self.links[block as usize];
        match before {
            NONE => self.front = after,
            _ => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            _ => self.links[after as usize].before = before,
        }
        self.cached -= 1;
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        if let Some(empty) = self.empty.pop() {
            return Some(empty);
        }
        if self.fresh < self.total {
            self.links.push(Link { before: NONE, after: NONE });
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        let front = self.front;
        if front == NONE {
            return None;
        }
        self.remove(front);
        Some(front)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let next = |block: u32| (block != NONE).then_some(block);
        let cached =
            core::iter::successors(next(self.front), move |b| next(self.links[*b as usize].after));
        self.empty.iter().rev().copied().chain(self.fresh..self.total).chain(cached)
    }
}
