//! Inserting: blocks that a target already holds become its most recent, the rest are added behind
//! them.

use super::order::NONE;
use super::{Evict, PrefixIndex};

/// Targets considered when a victim is chosen because the whole index is full.
const VICTIMS: usize = 8;
/// Blocks that a victim loses before the next is chosen.
const STRETCH: usize = 16;

/// Position for new blocks of a target.
#[derive(Clone, Copy)]
pub(super) struct InsertAt {
    pub(super) target: u16,
    /// The hold that becomes their parent.
    pub(super) parent: u32,
    /// The hold right behind which they go in the order of eviction.
    pub(super) newer: u32,
}

/// The blocks of a chain that a target held.
struct Renewed {
    known: usize,
    /// The hold of the last one.
    parent: u32,
    /// The time since the last use of each, in ms, summed.
    idle_ms: u64,
}

impl PrefixIndex {
    /// Notes that `target` holds the chain `blocks`, given from its root.
    ///
    /// With [`Evict::LeastRecent`] the whole chain becomes the target's most recent; with
    /// [`Evict::EarliestInserted`] only when the chain has new blocks, which leaves the leaf
    /// inserted first as the next victim. Beyond its cap, the target's own oldest leaves are
    /// evicted. Beyond the total, the fullest (size relative to cap) of 8 targets in turn loses 16
    /// leaves at a time. A chain longer than the cap is stored up to the cap.
    pub fn insert(&mut self, target: u16, blocks: &[u64]) {
        self.reuse(target, blocks);
    }

    /// As [`insert`](Self::insert). Returns the time since the last use of each block that `target`
    /// held, in ms, summed.
    pub fn reuse(&mut self, target: u16, blocks: &[u64]) -> u64 {
        if !self.knows(target) {
            return 0;
        }
        let most = self.orders.cap(target).min(self.capacity);
        let blocks = &blocks[..blocks.len().min(most)];
        if self.evict == Evict::EarliestInserted
            && self.longest(blocks, target) as usize == blocks.len()
        {
            return 0;
        }
        let Renewed { known, parent, idle_ms } = self.renew(target, blocks);
        self.add(target, blocks, known, parent);
        idle_ms
    }

    /// Makes the blocks of a chain that a target holds its most recent.
    fn renew(&mut self, target: u16, blocks: &[u64]) -> Renewed {
        let (mut at, mut parent, mut idle_ms) = (0, NONE, 0);
        while let Some(step) = self.step(&blocks[at..], target, parent) {
            // Blocks that are not in the chain keep their position in the order.
            let hold = match step.agreed < step.len {
                true => self.split(step.run, step.agreed, step.hold),
                false => step.hold,
            };
            self.orders.place(hold, parent);
            idle_ms += self.ages.since(self.orders[hold].used) * step.agreed as u64;
            self.orders[hold].used = self.ages.now_ms();
            (at, parent) = (at + step.agreed, hold);
        }
        Renewed { known: at, parent, idle_ms }
    }

    /// Adds the blocks of a chain, from `at` on, that a target does not hold, below `parent`.
    fn add(&mut self, target: u16, blocks: &[u64], mut at: usize, mut parent: u32) {
        while at < blocks.len() {
            let stretch = (at / STRETCH + 1) * STRETCH;
            let end = stretch.min(blocks.len());
            let mut victim = None;
            while at < end {
                let room = self.make_room(target, at, end - at, &mut victim);
                let place = InsertAt { target, parent, newer: parent };
                let Some((more, hold)) = self.grow(place, &blocks[at..], room) else { return };
                (at, parent) = (at + more, hold);
            }
        }
    }

    /// Frees space for up to `wanted` more blocks of `target`, sparing the `placed` newest blocks
    /// of the chain being inserted. Returns 0 when only those are left, which happens only for a
    /// chain that repeats itself.
    fn make_room(
        &mut self,
        target: u16,
        placed: usize,
        wanted: usize,
        victim: &mut Option<u16>,
    ) -> usize {
        let held = self.orders.held(target);
        let own = self.orders.cap(target) - held;
        // A target takes part in the rotation of victims from its first block on.
        let wanted = if held == 0 { 1 } else { wanted };
        let room = own.min(self.capacity - self.len());
        if room > 0 {
            return room.min(wanted);
        }
        let spare = (target, placed);
        let (from, wanted) = match own {
            0 => (Some(target), wanted),
            own => {
                if victim.is_none_or(|v| !self.orders.may_give(v, spare)) {
                    *victim = self.orders.victim(VICTIMS, spare);
                }
                (*victim, wanted.min(own))
            }
        };
        let Some(from) = from.filter(|v| self.orders.may_give(*v, spare)) else { return 0 };
        let mut given = self.orders.held(from) - if from == target { placed } else { 0 };
        if from == target && given == held && held > 1 {
            // Never evict everything it has, or it would leave the rotation.
            given -= 1;
        }
        let given = given.min(wanted);
        self.evict(from, given);
        given
    }

    /// Adds the first blocks of `chain` at a place, at most `room` of them. Returns how many, and
    /// their hold: they extend the hold above, join a run that other targets hold, or start a new
    /// run. `None` without space, or if they are already held, which happens only for a chain that
    /// repeats itself.
    pub(super) fn grow(
        &mut self,
        place: InsertAt,
        chain: &[u64],
        room: usize,
    ) -> Option<(usize, u32)> {
        let InsertAt { target, parent, newer } = place;
        let next = &chain[..room.min(chain.len())];
        let first = *next.first()?;
        let is_one = parent != NONE && parent == newer;
        if parent != NONE {
            let (run, len) = (self.orders[parent].run, self.held_of(parent));
            let follows = &self.runs[run].blocks()[len..];
            let agreed = super::runs::agreed(follows, next);
            if !follows.is_empty() && (!is_one || agreed == 0) {
                self.split(run, len, parent);
            } else if agreed > 0 {
                return Some(self.lengthen(parent, &next[..agreed], len));
            }
        }
        if let Some(run) = self.runs.find(first) {
            if self.runs[run].holder(target).is_some() {
                return None;
            }
            let agreed = self.runs[run].agreed(next);
            return Some(self.join(place, run, &next[..agreed]));
        }
        if is_one && self.is_alone(parent) {
            let len = self.held_of(parent);
            self.runs.extend(self.orders[parent].run, next, chain.len());
            return Some(self.lengthen(parent, next, len));
        }
        let run = self.runs.add(next, chain.len(), target);
        Some(self.join(place, run, next))
    }

    /// Whether no other target holds this hold's run, and the hold has no children.
    fn is_alone(&self, hold: u32) -> bool {
        let there = &self.orders[hold];
        there.children == 0 && self.runs[there.run].holders().len() == 1
    }

    /// Extends the hold by these blocks, which follow the first `len` of its run.
    fn lengthen(&mut self, hold: u32, more: &[u64], len: usize) -> (usize, u32) {
        let (run, target) = (self.orders[hold].run, self.orders[hold].target);
        self.runs.lengthen(run, target, len + more.len());
        self.orders.gained(target, more.len());
        self.changes.count(self.runs[run].name());
        (more.len(), hold)
    }

    /// Gives a target these leading blocks of a run.
    fn join(&mut self, place: InsertAt, run: u32, blocks: &[u64]) -> (usize, u32) {
        let InsertAt { target, parent, newer } = place;
        let hold = self.orders.enter(target, run, parent, newer);
        self.orders[hold].used = self.ages.now_ms();
        self.runs.join(run, target, blocks.len(), hold);
        self.orders.gained(target, blocks.len());
        self.changes.count(self.runs[run].name());
        (blocks.len(), hold)
    }

    /// Splits a run after its first `at` blocks, so that chains may diverge there. Returns the hold
    /// of those blocks, for the target of `hold`.
    pub(super) fn split(&mut self, run: u32, at: usize, hold: u32) -> u32 {
        let target = self.orders[hold].target;
        self.changes.count(self.runs[run].name());
        let orders = &mut self.orders;
        self.runs.split(run, at, |hold, below| orders.enter_above(hold, below));
        self.runs[run].holder(target).map_or(hold, |h| h.hold)
    }
}
