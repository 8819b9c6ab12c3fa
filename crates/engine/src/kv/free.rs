//! The free list: a doubly linked list in two arrays, so that removing a cached block from the
//! middle takes constant time and nothing is allocated after the start.

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
    links: Vec<Link>,
    front: u32,
    back: u32,
    len: u32,
}

impl FreeList {
    /// All of `blocks` blocks, in order.
    pub(super) fn full(blocks: u32) -> FreeList {
        let mut list = FreeList {
            links: alloc::vec![Link { before: NONE, after: NONE }; blocks as usize],
            front: NONE,
            back: NONE,
            len: 0,
        };
        (0..blocks).for_each(|block| list.push_back(block));
        list
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn push_back(&mut self, block: u32) {
        self.links[block as usize] = Link { before: self.back, after: NONE };
        match self.back {
            NONE => self.front = block,
            back => self.links[back as usize].after = block,
        }
        self.back = block;
        self.len += 1;
    }

    pub(super) fn push_front(&mut self, block: u32) {
        self.links[block as usize] = Link { before: NONE, after: self.front };
        match self.front {
            NONE => self.back = block,
            front => self.links[front as usize].before = block,
        }
        self.front = block;
        self.len += 1;
    }

    /// Removes `block`, which must be in the list.
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
        self.len -= 1;
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        let front = self.front;
        if front == NONE {
            return None;
        }
        self.remove(front);
        Some(front)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let next = |block: u32| (block != NONE).then_some(block);
        core::iter::successors(next(self.front), move |b| next(self.links[*b as usize].after))
    }
}
