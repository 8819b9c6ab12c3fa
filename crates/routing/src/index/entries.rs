//! The entries: one for each block at each target that holds it, 24 bytes each.
//!
//! They stand in one array, reserved at the start and filled as needed, so that pages never used
//! cost nothing; freed ones are threaded on a list. Entries name each other by their place.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

const FORKED: u32 = 1 << 31;
const PARENT: u32 = 1 << 30;
const IN_SET: u32 = 1 << 29;
const LINK: u32 = IN_SET - 1;

/// A block held by a target.
///
/// The entry of the block's first holder is its *head*: found under the block's hash alone, it
/// counts the holders and leads to the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The block.
    pub(super) hash: u64,
    /// Flags, and the next holder in the block's list or (head only) the block's set.
    link: u32,
    /// Neighbour in the target's order, towards the most recent.
    pub(super) newer: u32,
    /// Neighbour in the target's order, towards the next victim; the next free one when free.
    pub(super) older: u32,
    /// The holder.
    pub(super) target: u16,
    /// How many targets hold the block; 0 in all but the head.
    pub(super) holders: u16,
}

/// How a block's head leads to the other holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// The next holder's entry, or [`NONE`].
    List(u32),
    /// The number of the set that names them all.
    Set(u32),
}

impl Entry {
    pub(super) fn is_head(&self) -> bool {
        self.holders > 0
    }

    pub(super) fn link(&self) -> Link {
        match (self.link & IN_SET != 0, self.link & LINK) {
            (true, set) => Link::Set(set),
            (false, LINK) => Link::List(NONE),
            (false, next) => Link::List(next),
        }
    }

    pub(super) fn set_link(&mut self, link: Link) {
        let bits = match link {
            Link::List(next) => next & LINK,
            Link::Set(set) => set | IN_SET,
        };
        self.link = self.link & (FORKED | PARENT) | bits;
    }

    /// Whether a block below this one may be held by the same target. Never wrongly false.
    pub(super) fn has_child(&self) -> bool {
        self.link & PARENT != 0
    }

    /// Two bits count children: none, one, more. Evictions do not find their parent, so the count
    /// never falls by them: it says at least what is true.
    pub(super) fn gained_child(&mut self) {
        let second = (self.link & PARENT) << 1;
        self.link |= PARENT | second;
    }

    /// Takes back an only child.
    pub(super) fn lost_child(&mut self) {
        if self.link & FORKED == 0 {
            self.link &= !PARENT;
        }
    }
}

/// All entries, live and free.
#[derive(Debug)]
pub(super) struct Entries {
    all: Vec<Entry>,
    free: u32,
    len: usize,
    capacity: usize,
}

impl Entries {
    pub(super) fn new(capacity: usize) -> Entries {
        Entries { all: Vec::with_capacity(capacity), free: NONE, len: 0, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Entry>()
    }

    /// Takes a free entry, alone in every respect; `None` when all are taken.
    pub(super) fn take(&mut self, hash: u64, target: u16, holders: u16) -> Option<u32> {
        let entry = Entry { hash, link: LINK, newer: NONE, older: NONE, target, holders };
        if self.len >= self.capacity {
            return None;
        }
        self.len += 1;
        if self.free == NONE {
            self.all.push(entry);
            return Some(self.all.len() as u32 - 1);
        }
        let place = self.free;
        self.free = self[place].older;
        self[place] = entry;
        Some(place)
    }

    pub(super) fn free(&mut self, place: u32) {
        self[place].older = self.free;
        self.free = place;
        self.len -= 1;
    }
}

impl Index<u32> for Entries {
    type Output = Entry;
    #[inline]
    fn index(&self, place: u32) -> &Entry {
        &self.all[place as usize]
    }
}

impl IndexMut<u32> for Entries {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Entry {
        &mut self.all[place as usize]
    }
}
