//! The prefix index: which targets have which blocks of a prompt cached.
//!
//! A prompt is a chain of block hashes, each naming the whole prefix up to it, so the targets that
//! hold a block are always a subset of those that hold its parent. Chains are kept as a tree (as in
//! SkyWalker, section 3.2) of *runs*, stretches of blocks between the places where chains diverge.
//! A conversation is a handful of runs however long it grows, and an operation on it takes that
//! many steps, not one per block.
//!
//! Every target has its own order of eviction. A chain is placed in it from root to leaf, each
//! block right behind its parent. The oldest block is therefore always a leaf, and eviction removes
//! blocks from the end of the oldest run.
//!
//! Memory is bounded by the number of entries (blocks at targets): 8 bytes for each hash and some
//! 120 for each run at a target. In conversations a run has dozens of blocks.
//!
//! Deliberately not here: the text of prompts, and the value of a match, which the policy decides.

mod age;
mod check;
mod handover;
mod insert;
mod matching;
mod order;
mod recall;
mod runs;
mod spec;

use age::Ages;
use meridian_base::{Duration, Time};
use order::{Hold, NONE, Orders};
use recall::Changes;
pub(crate) use recall::Recalled;
use runs::Runs;
pub use spec::{Evict, IndexSpec, Insert};

use crate::replicas::MOST_REPLICA_IDS;

/// Most blocks at targets, so that 32 bits can address everything.
const MOST: usize = 1 << 26;
/// Blocks per run to reserve memory for; if runs are shorter, it grows.
const BLOCKS_A_RUN: usize = 16;

/// Maps chained block hashes to the set of targets that hold each block.
#[derive(Debug)]
pub struct PrefixIndex {
    runs: Runs,
    orders: Orders,
    ages: Ages,
    changes: Changes,
    evict: Evict,
    capacity: usize,
}

impl PrefixIndex {
    /// An empty index of at most `total_entries` (blocks times the targets that hold them) for the
    /// targets `0..max_targets`.
    ///
    /// `total_entries` is clamped to 1..=67,108,864. Every target's cap is the total until
    /// [`set_cap`](Self::set_cap).
    #[must_use]
    pub fn new(total_entries: usize, max_targets: usize, evict: Evict) -> Self {
        let capacity = total_entries.clamp(1, MOST);
        let targets = max_targets.min(usize::from(MOST_REPLICA_IDS));
        let runs = capacity / BLOCKS_A_RUN;
        PrefixIndex {
            runs: Runs::new(runs),
            orders: Orders::new(targets, capacity, runs),
            ages: Ages::new(None),
            changes: Changes::new(),
            evict,
            capacity,
        }
    }

    /// As [`new`](Self::new), with entries that age: [`expire`](Self::expire) removes those unused
    /// for `ttl`.
    #[must_use]
    pub fn with_ttl(self, ttl: Option<Duration>) -> Self {
        PrefixIndex { ages: Ages::new(ttl), ..self }
    }

    /// Allows targets up to `max_targets`; those that were allowed before stay so.
    pub fn allow_targets(&mut self, max_targets: usize) {
        self.orders.allow(max_targets.min(usize::from(MOST_REPLICA_IDS)), self.capacity);
    }

    /// Sets the time at which later operations use entries.
    pub fn set_now(&mut self, now: Time) {
        self.ages.set_now(now);
    }

    /// Removes the entries that `target` has not used for `ttl`.
    pub fn expire(&mut self, target: u16) {
        if !self.knows(target) {
            return;
        }
        let is_old = |index: &Self, hold: u32| index.ages.is_old(index.orders[hold].used);
        while let Some(hold) = self.orders.oldest(target).filter(|h| is_old(self, *h)) {
            self.give(hold, usize::MAX);
        }
    }

    /// Sets the most blocks that `target` may hold, and evicts its oldest leaves beyond that.
    pub fn set_cap(&mut self, target: u16, blocks: usize) {
        if self.knows(target) {
            let cap = blocks.min(self.capacity);
            self.orders.set_cap(target, cap);
            self.evict(target, self.orders.held(target).saturating_sub(cap));
        }
    }

    /// Removes the blocks of a chain deeper than `keep` that `target` was thought to hold, deepest
    /// first; returns how many. Stops below a block that other chains depend on: those age out in
    /// the order of eviction.
    pub fn truncate(&mut self, target: u16, blocks: &[u64], keep: u32) -> u32 {
        let (depth, last) = self.deepest(blocks, target);
        let Some(last) = last.filter(|last| last.agreed == last.len) else { return 0 };
        let (mut left, mut hold) = (depth, last.hold);
        while hold != NONE && left > keep as usize && self.orders[hold].children == 0 {
            let parent = self.orders[hold].parent;
            left -= self.give(hold, left - keep as usize);
            hold = parent;
        }
        (depth - left) as u32
    }

    /// Removes everything that `target` holds and lifts its cap, in time proportional to the blocks
    /// it holds.
    pub fn remove_target(&mut self, target: u16) {
        if self.knows(target) {
            self.evict(target, self.orders.held(target));
            self.orders.set_cap(target, self.capacity);
        }
    }

    /// Entries: blocks times the targets that hold them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.orders.total()
    }

    /// Whether the index is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks that `target` holds.
    #[must_use]
    pub fn held_by(&self, target: u16) -> usize {
        match self.knows(target) {
            true => self.orders.held(target),
            false => 0,
        }
    }

    /// Bytes of the whole index, in time proportional to its runs.
    #[must_use]
    pub fn bytes_allocated(&self) -> usize {
        self.runs.bytes() + self.orders.bytes() + self.changes.bytes()
    }

    fn knows(&self, target: u16) -> bool {
        usize::from(target) < self.orders.targets()
    }

    /// Blocks of a hold.
    fn held_of(&self, hold: u32) -> usize {
        let there = &self.orders[hold];
        self.runs[there.run].holder(there.target).map_or(0, |h| h.len as usize)
    }

    /// Evicts this many of a target's blocks, oldest first; it must hold at least as many.
    fn evict(&mut self, target: u16, blocks: usize) {
        let mut left = blocks;
        while left > 0
            && let Some(oldest) = self.orders.oldest(target)
        {
            left -= self.give(oldest, left);
        }
    }

    /// Removes up to `most` blocks from the end of a hold that has no children. Returns how many.
    fn give(&mut self, hold: u32, most: usize) -> usize {
        let Hold { run, target, .. } = self.orders[hold];
        self.changes.count(self.runs[run].name());
        let (given, left) = self.runs.shorten(run, target, most);
        self.orders.lost(target, given);
        if left == 0 {
            self.orders.exit(hold);
        }
        given
    }
}
