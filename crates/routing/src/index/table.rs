//! The table: from a key to the place of an entry, in 4 bytes a slot.
//!
//! Linear probing with Robin Hood order (whoever is farther from home keeps the slot), so that a
//! search ends early and removal shifts the few followers back by one: no tombstones, no rehash,
//! ever. A slot packs the entry's place, its distance from home and a few bits of its key, hence
//! neither a search nor a shift has to look at entries other than the one sought. Distances from
//! 31 up read 31, and the entry's key settles them; at three quarters full they are very rare.

use alloc::vec;
use alloc::vec::Vec;

/// Most entries that a slot can name beside a distance and one bit of key.
pub(super) const MOST: usize = (1 << 26) - 2;

const FAR: u32 = 31;
const EMPTY: u32 = 0;

/// Slots, each `key bits | distance (5 bits) | place + 1`.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<u32>,
    /// Bits that hold the place.
    bits: u32,
}

impl Table {
    /// A table for at most `entries`, a quarter of it always empty.
    pub(super) fn new(entries: usize) -> Table {
        let slots = entries + entries / 3 + 2;
        Table { slots: vec![EMPTY; slots], bits: usize::BITS - (entries + 1).leading_zeros() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (((key >> 32) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn tag(&self, key: u64) -> u32 {
        (key as u32) << (self.bits + 5)
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        let next = slot + 1;
        if next == self.slots.len() { 0 } else { next }
    }

    #[inline]
    fn place(&self, word: u32) -> u32 {
        (word & ((1 << self.bits) - 1)) - 1
    }

    #[inline]
    fn distance(&self, word: u32) -> u32 {
        (word >> self.bits) & FAR
    }

    /// The slot's true distance from home.
    fn true_distance(&self, slot: usize, key_of: impl Fn(u32) -> u64) -> usize {
        let word = self.slots[slot];
        match self.distance(word) {
            FAR => {
                let home = self.home(key_of(self.place(word)));
                (slot + self.slots.len() - home) % self.slots.len()
            }
            near => near as usize,
        }
    }

    fn at_distance(&self, word: u32, distance: usize) -> u32 {
        let near = (distance as u32).min(FAR);
        word & !(FAR << self.bits) | near << self.bits
    }

    /// Reads the slot where a search for `key` starts. Reading several before searching any
    /// lets the processor fetch them from memory at the same time.
    #[inline]
    pub(super) fn peek(&self, key: u64) -> u32 {
        self.slots[self.home(key)]
    }

    /// The slot of `key`'s entry for which `is` holds.
    #[inline]
    fn slot_of(&self, key: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        let mut slot = self.home(key);
        let mut sought = self.tag(key) >> self.bits;
        loop {
            let word = self.slots[slot];
            let high = word >> self.bits;
            if word == EMPTY || high & FAR < sought & FAR {
                return None;
            }
            if high == sought && is(self.place(word)) {
                return Some(slot);
            }
            sought += u32::from(sought & FAR < FAR);
            slot = self.next(slot);
        }
    }

    /// The place of the first entry that may be `key`'s, by the bits in the slot alone.
    #[inline]
    pub(super) fn candidate(&self, key: u64) -> Option<u32> {
        self.find(key, |_| true)
    }

    /// The place of `key`'s entry for which `is` holds.
    #[inline]
    pub(super) fn find(&self, key: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot_of(key, is).map(|slot| self.place(self.slots[slot]))
    }

    /// Adds an entry under `key`. The table must have room; `key_of` gives the key of an entry
    /// that is in it.
    pub(super) fn insert(&mut self, key: u64, place: u32, key_of: impl Fn(u32) -> u64) {
        let (mut slot, mut distance) = (self.home(key), 0);
        let mut word = self.tag(key) | (place + 1);
        while self.slots[slot] != EMPTY {
            let theirs = self.true_distance(slot, &key_of);
            if theirs < distance {
                let evicted = self.slots[slot];
                self.slots[slot] = self.at_distance(word, distance);
                (word, distance) = (evicted, theirs);
            }
            (slot, distance) = (self.next(slot), distance + 1);
        }
        self.slots[slot] = self.at_distance(word, distance);
    }

    /// Removes the entry at `place`, which is in the table under `key`.
    pub(super) fn remove(&mut self, key: u64, place: u32, key_of: impl Fn(u32) -> u64) {
        let found = self.slot_of(key, |p| p == place);
        let mut hole = found.expect("an entry is removed under the key it was inserted with");
        loop {
            let next = self.next(hole);
            if self.slots[next] == EMPTY {
                break;
            }
            let distance = self.true_distance(next, &key_of);
            if distance == 0 {
                break;
            }
            self.slots[hole] = self.at_distance(self.slots[next], distance - 1);
            hole = next;
        }
        self.slots[hole] = EMPTY;
    }

    /// Puts the entry at `to` in the place of the one at `from`, under the same `key`.
    pub(super) fn replace(&mut self, key: u64, from: u32, to: u32) {
        let found = self.slot_of(key, |p| p == from);
        let slot = found.expect("an entry is replaced under the key it was inserted with");
        let word = self.slots[slot];
        self.slots[slot] = word >> self.bits << self.bits | (to + 1);
    }

    /// Slots taken, with every distance checked against the entries' keys.
    pub(super) fn check(&self, key_of: impl Fn(u32) -> u64) -> usize {
        let mut taken = 0;
        for (slot, &word) in self.slots.iter().enumerate().filter(|(_, w)| **w != EMPTY) {
            taken += 1;
            let key = key_of(self.place(word));
            let distance = (slot + self.slots.len() - self.home(key)) % self.slots.len();
            assert_eq!(self.distance(word), (distance as u32).min(FAR), "distance at {slot}");
            assert_eq!(word >> (self.bits + 5) << (self.bits + 5), self.tag(key), "tag at {slot}");
            let before = (slot + self.slots.len() - 1) % self.slots.len();
            assert!(distance == 0 || self.slots[before] != EMPTY, "a gap before {slot}");
        }
        taken
    }
}

#[cfg(test)]
mod tests;
