//! The prefix index: which targets hold which block of a prompt.
//!
//! A prompt is a chain of block hashes, each naming the whole prefix up to it, so the targets that
//! hold a block are always a subset of those that hold its parent (SkyWalker, section 3.2, keeps a
//! trie for the same purpose). That property replaces the trie: one flat table of (block, target)
//! entries is enough, and the depth each target reaches is found by comparing the *number* of
//! holders at a few places of the chain instead of walking it, because equal numbers mean equal
//! sets.
//!
//! Every target has its own order of eviction. A chain is placed in it from root to leaf, each
//! block right behind its parent, so that the oldest entry is always a leaf and evicting it keeps
//! the property without child lists.
//!
//! Memory is bounded and reserved at the start: 24 bytes an entry, 5 1/3 for its place in the
//! table, 2 for sets. Nothing allocates, rehashes or shifts more than a few words afterwards.
//!
//! Deliberately not here: time (entries carry none), the text of prompts, and what a match is
//! worth, which is the policy's business.

mod age;
mod check;
mod entries;
mod handover;
mod holders;
mod matching;
mod order;
mod recall;
mod sets;
mod spec;
mod table;

use core::hint::black_box;

use age::Ages;
use entries::{Entries, NONE};
use meridian_base::{Duration, Time};
use order::Orders;
use recall::Changes;
pub(crate) use recall::Recalled;
use sets::Sets;
pub use spec::{Evict, IndexSpec, Insert};
use table::Table;

/// Targets that the choice of a victim looks at when the whole index is full.
const VICTIMS: usize = 8;
/// Leaves that a victim gives before the next is chosen. Leaves that were inserted together stand
/// together in memory, and their cache misses overlap.
const STRETCH: usize = 16;

/// Maps chained block hashes to the set of targets that hold each block.
#[derive(Debug)]
pub struct PrefixIndex {
    entries: Entries,
    table: Table,
    orders: Orders,
    sets: Sets,
    ages: Ages,
    changes: Changes,
    evict: Evict,
}

impl PrefixIndex {
    /// An empty index of at most `total_entries` (blocks times the targets that hold them) for
    /// the targets `0..max_targets`.
    ///
    /// `total_entries` is brought into 1..=67,108,862 (2 GiB). Every target's cap is the total
    /// until [`set_cap`](Self::set_cap).
    #[must_use]
    pub fn new(total_entries: usize, max_targets: usize, evict: Evict) -> Self {
        let total = total_entries.clamp(1, table::MOST);
        let targets = max_targets.min(usize::from(u16::MAX));
        PrefixIndex {
            entries: Entries::new(total),
            table: Table::new(total),
            orders: Orders::new(targets, total),
            sets: Sets::new(total, targets),
            ages: Ages::new(total, None),
            changes: Changes::new(),
            evict,
        }
    }

    /// The same, with entries that age: [`expire`](Self::expire) forgets those unused for `ttl`.
    #[must_use]
    pub fn with_ttl(self, ttl: Option<Duration>) -> Self {
        PrefixIndex { ages: Ages::new(self.entries.capacity(), ttl), ..self }
    }

    /// The time that entries are used at from now on.
    pub fn set_now(&mut self, now: Time) {
        self.ages.set_now(now);
    }

    /// Forgets what `target` has not used for its time to live.
    pub fn expire(&mut self, target: u16) {
        if usize::from(target) >= self.orders.targets() {
            return;
        }
        while let Some(oldest) = self.orders.oldest(target).filter(|e| self.ages.is_old(*e)) {
            self.remove(oldest);
        }
    }

    /// Sets the blocks that `target` may hold, evicting its oldest leaves beyond that at once.
    pub fn set_cap(&mut self, target: u16, blocks: usize) {
        if usize::from(target) >= self.orders.targets() {
            return;
        }
        self.orders.set_cap(target, blocks.min(self.entries.capacity()));
        while self.orders.held(target) > self.orders.cap(target) {
            let Some(oldest) = self.orders.oldest(target) else { return };
            self.remove(oldest);
        }
    }

    /// Notes that `target` holds the chain `blocks`, given from its root.
    ///
    /// With [`Evict::LeastRecent`] the whole chain becomes the target's most recent; with
    /// [`Evict::EarliestInserted`] only when something is new, which leaves the leaf inserted
    /// first as the next victim. Beyond its cap the target's own oldest leaves go; beyond the
    /// total, those of the fullest (held relative to cap) of 8 targets in turn, 16 leaves at a
    /// time. A chain longer than the cap is held up to the cap.
    pub fn insert(&mut self, target: u16, blocks: &[u64]) {
        if usize::from(target) >= self.orders.targets() {
            return;
        }
        let most = self.orders.cap(target).min(self.entries.capacity());
        let blocks = &blocks[..blocks.len().min(most)];
        let Some(&last) = blocks.last() else { return };
        if self.evict == Evict::EarliestInserted && self.find(last, target).is_some() {
            return;
        }
        let (mut parent, mut guess, mut fresh) = (NONE, NONE, false);
        let mut victim = None;
        for (placed, &hash) in blocks.iter().enumerate() {
            // A chain inserted at once stands together in the order: the next block is most
            // often the next entry there, and the table need not be asked.
            let known = match guess != NONE && self.entries[guess].hash == hash {
                true => Some(guess),
                false if fresh => None,
                false => self.find(hash, target),
            };
            if let Some(entry) = known {
                guess = self.entries[entry].older;
                self.orders.place(&mut self.entries, entry, parent);
                self.ages.touch(entry);
                parent = entry;
                continue;
            }
            if !fresh || placed % STRETCH == 0 {
                self.warm(&blocks[placed..blocks.len().min(placed + STRETCH)], target);
                victim = None;
            }
            (fresh, guess) = (true, NONE);
            if !self.make_room(target, placed, &mut victim) {
                return;
            }
            let Some(entry) = self.add(hash, target, parent) else { continue };
            self.ages.touch(entry);
            parent = entry;
        }
    }

    /// Forgets the blocks of a chain deeper than `keep` that `target` was thought to hold, from
    /// the deepest up; returns how many. Stops below a block that other chains may hang from:
    /// those entries age out by the order of eviction.
    pub fn truncate(&mut self, target: u16, blocks: &[u64], keep: u32) -> u32 {
        let mut depth = self.longest(blocks, target);
        let mut forgotten = 0;
        while depth > keep {
            let Some(entry) = self.find(blocks[depth as usize - 1], target) else { break };
            if self.entries[entry].has_child() {
                break;
            }
            self.remove(entry);
            (depth, forgotten) = (depth - 1, forgotten + 1);
            let parent = depth.checked_sub(1).and_then(|d| self.find(blocks[d as usize], target));
            if let Some(parent) = parent {
                self.entries[parent].lost_child();
            }
        }
        forgotten
    }

    /// Forgets all that `target` holds and lifts its cap, in time proportional to what it holds.
    pub fn remove_target(&mut self, target: u16) {
        if usize::from(target) >= self.orders.targets() {
            return;
        }
        while let Some(oldest) = self.orders.oldest(target) {
            self.remove(oldest);
        }
        self.orders.set_cap(target, self.entries.capacity());
    }

    /// Entries: blocks times the targets that hold them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks that `target` holds.
    #[must_use]
    pub fn held_by(&self, target: u16) -> usize {
        match usize::from(target) < self.orders.targets() {
            true => self.orders.held(target),
            false => 0,
        }
    }

    /// Bytes reserved for the whole index. Pages never used are never touched.
    #[must_use]
    pub fn bytes_allocated(&self) -> usize {
        self.entries.bytes()
            + self.table.bytes()
            + self.orders.bytes()
            + self.sets.bytes()
            + self.ages.bytes()
            + self.changes.bytes()
    }

    /// Makes room for one more entry of `target`, sparing the `placed` newest of its chain in
    /// hand. False when only those are left, which takes a chain that repeats itself.
    fn make_room(&mut self, target: u16, placed: usize, victim: &mut Option<u16>) -> bool {
        let full = self.entries.len() >= self.entries.capacity();
        let from = match self.orders.held(target) >= self.orders.cap(target) {
            true => Some(target),
            false if full => {
                let may = victim.filter(|v| self.orders.may_give(*v, (target, placed)));
                if may.is_none() {
                    *victim = self.orders.victim(VICTIMS, (target, placed));
                    victim.iter().for_each(|v| self.warm_oldest(*v));
                }
                *victim
            }
            false => return true,
        };
        let from = from.filter(|v| self.orders.may_give(*v, (target, placed)));
        let Some(oldest) = from.and_then(|v| self.orders.oldest(v)) else { return false };
        self.remove(oldest);
        true
    }

    /// Fetches what adding these blocks will touch, all at the same time.
    fn warm(&self, blocks: &[u64], target: u16) {
        black_box(blocks.iter().fold(0, |w, b| w ^ self.table.peek(holders::head_key(*b))));
        if self.orders.held(target) + blocks.len() > self.orders.cap(target) {
            self.warm_oldest(target);
        }
    }

    /// Fetches what evicting a target's oldest leaves will touch.
    fn warm_oldest(&self, target: u16) {
        let mut at = self.orders.oldest(target).unwrap_or(NONE);
        let mut warm = 0;
        for _ in 0..STRETCH {
            if at == NONE {
                break;
            }
            let entry = &self.entries[at];
            warm ^= self.table.peek(holders::key(entry));
            at = entry.newer;
        }
        black_box(warm);
    }

    /// Adds an entry right behind its `parent`. `None` when it is there already, which takes a
    /// chain that repeats itself.
    fn add(&mut self, hash: u64, target: u16, parent: u32) -> Option<u32> {
        let entry = self.join(hash, target)?;
        self.changes.count(hash);
        self.orders.enter(&mut self.entries, entry, parent);
        if parent != NONE {
            self.entries[parent].gained_child();
        }
        Some(entry)
    }

    fn remove(&mut self, entry: u32) {
        self.changes.count(self.entries[entry].hash);
        self.leave(entry);
        self.orders.exit(&mut self.entries, entry);
        self.entries.free(entry);
    }
}
