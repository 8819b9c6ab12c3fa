//! Runs: blocks of a prefix that follow each other, with one entry for all.
//!
//! A run is found by its first block and the hash before it. Of the hashes only 40 bits are stored:
//! a block is compared only after all blocks before it agreed, so two texts that part are confused
//! at that block with a probability of 10^-12. A sequence references whole runs. One that shares
//! only the beginning of a run splits it, and the tables that have all of it find the rest behind
//! the first part. The only sequence that references a run extends it in place.
//!
//! Runs without references are in a list by their last use. The first goes first, its last block
//! before its first one.

use alloc::vec::Vec;
use hashbrown::HashTable;
use meridian_base::mix;

use super::table::Piece;

/// No run.
const NONE: u32 = u32::MAX;

/// The stored part of a block's hash.
type Mark = [u8; 5];

fn mark(hash: u64) -> Mark {
    let [a, b, c, d, e, ..] = hash.to_le_bytes();
    [a, b, c, d, e]
}

/// The key of a run that starts with `first` after the block of hash `before`, 0 for none.
fn key(before: u64, first: Mark) -> u64 {
    let [a, b, c, d, e] = first;
    mix(before, u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
}

/// The place of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) run: u32,
    block: u32,
}

#[derive(Clone, Debug)]
struct Run {
    key: u64,
    /// One for each block.
    marks: Vec<Mark>,
    references: u32,
    /// The other part, where this run was split: only tables with more blocks than this run use it.
    rest: u32,
    /// Neighbours by last use, while there are no references. A vacant entry's `after` is the next
    /// vacant one.
    before: u32,
    after: u32,
}

/// All runs of a cache.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    runs: Vec<Run>,
    vacant: u32,
    index: HashTable<u32>,
    front: u32,
    back: u32,
    /// Blocks of all runs, and of those without references.
    blocks: u32,
    idle: u32,
}

impl Default for Runs {
    fn default() -> Runs {
        let (runs, index) = (Vec::new(), HashTable::new());
        Runs { runs, vacant: NONE, index, front: NONE, back: NONE, blocks: 0, idle: 0 }
    }
}

impl Runs {
    pub(super) fn len(&self, run: u32) -> u32 {
        self.runs[run as usize].marks.len() as u32
    }

    /// Blocks of all runs.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Blocks of all runs without references.
    pub(super) fn idle(&self) -> u32 {
        self.idle
    }

    pub(super) fn is_idle(&self, run: u32) -> bool {
        self.runs[run as usize].references == 0
    }

    fn find(&self, before: u64, hash: u64) -> Option<u32> {
        let key = key(before, mark(hash));
        self.index.find(key, |run| self.runs[*run as usize].key == key).copied()
    }

    /// Follows `hashes` as far as they are cached: `visit` gets each run, with the number of its
    /// blocks that agree. Returns the number of all.
    pub(super) fn walk(&self, hashes: &[u64], mut visit: impl FnMut(u32, u32)) -> u32 {
        let (mut at, mut before) = (0, 0);
        while let Some(hash) = hashes.get(at) {
            let Some(run) = self.find(before, *hash) else { break };
            let marks = &self.runs[run as usize].marks[1..];
            let pairs = marks.iter().zip(&hashes[at + 1..]);
            let agree = 1 + pairs.take_while(|(own, hash)| **own == mark(**hash)).count();
            visit(run, agree as u32);
            at += agree;
            before = hashes[at - 1];
        }
        at as u32
    }

    /// Where the block of `hash` is, after the one of hash `before`, which is at `from` if it is
    /// cached.
    pub(super) fn next(&self, from: Option<At>, before: u64, hash: u64) -> Option<At> {
        if let Some(At { run, block }) = from
            && self.runs[run as usize].marks.get(block as usize + 1) == Some(&mark(hash))
        {
            return Some(At { run, block: block + 1 });
        }
        self.find(before, hash).map(|run| At { run, block: 0 })
    }

    /// The runs of a piece, in order.
    pub(super) fn of(&self, piece: Piece) -> impl Iterator<Item = u32> + '_ {
        let (mut run, mut left) = (piece.run, piece.count);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let this = run;
            left -= self.len(this);
            run = self.runs[this as usize].rest;
            Some(this)
        })
    }

    /// The last of `count` blocks from the start of `run`.
    pub(super) fn last(&self, mut run: u32, mut count: u32) -> At {
        while count > self.len(run) {
            count -= self.len(run);
            run = self.runs[run as usize].rest;
        }
        At { run, block: count - 1 }
    }

    /// A new run of one block, referenced once.
    pub(super) fn begin(&mut self, before: u64, hash: u64) -> At {
        let marks = alloc::vec![mark(hash)];
        self.blocks += 1;
        let (key, rest) = (key(before, mark(hash)), NONE);
        let run = self.enter(Run { key, marks, references: 1, rest, before: NONE, after: NONE });
        At { run, block: 0 }
    }

    /// Extends the run of `last` by a block after that one, if it is the run's last, and no other
    /// sequence references the run.
    pub(super) fn extend(&mut self, last: At, hash: u64) -> Option<At> {
        let run = &mut self.runs[last.run as usize];
        if run.references != 1 || run.marks.len() as u32 != last.block + 1 {
            return None;
        }
        run.marks.push(mark(hash));
        self.blocks += 1;
        Some(At { block: last.block + 1, ..last })
    }

    /// Splits `run` after `count` blocks, the last of which has the hash `before`. Returns the
    /// rest.
    pub(super) fn split(&mut self, run: u32, count: u32, before: u64) -> u32 {
        let Run { marks, references, rest, .. } = &mut self.runs[run as usize];
        let behind = marks[count as usize..].to_vec();
        marks.truncate(count as usize);
        let (key, references, rest) = (key(before, behind[0]), *references, *rest);
        let new = Run { key, marks: behind, references, rest, before: NONE, after: NONE };
        let new = self.enter(new);
        self.runs[run as usize].rest = new;
        if references == 0 {
            self.insert(new, run);
        }
        new
    }

    /// The run at which `piece` continues after `count` of its blocks, the last of which has the
    /// hash `before`; a run is split there.
    pub(super) fn cut(&mut self, piece: Piece, count: u32, before: u64) -> u32 {
        let At { run, block } = self.last(piece.run, count);
        match block + 1 < self.len(run) {
            true => self.split(run, block + 1, before),
            false => self.runs[run as usize].rest,
        }
    }

    pub(super) fn reference(&mut self, run: u32) {
        if self.is_idle(run) {
            self.remove(run);
            self.idle -= self.len(run);
        }
        self.runs[run as usize].references += 1;
    }

    pub(super) fn release(&mut self, run: u32) {
        let entry = &mut self.runs[run as usize];
        assert!(entry.references > 0, "a run is released as often as it is referenced");
        entry.references -= 1;
        if entry.references == 0 {
            entry.marks.shrink_to_fit();
            self.idle += self.len(run);
            self.push_back(run);
        }
    }

    /// Evicts `blocks` blocks of runs without references; there are as many.
    pub(super) fn evict(&mut self, mut blocks: u32) {
        assert!(blocks <= self.idle, "only idle blocks are evicted");
        self.blocks -= blocks;
        self.idle -= blocks;
        while blocks > 0 {
            let run = self.front;
            let marks = &mut self.runs[run as usize].marks;
            let keep = (marks.len() as u32).saturating_sub(blocks);
            blocks -= marks.len() as u32 - keep;
            marks.truncate(keep as usize);
            if keep == 0 {
                self.remove(run);
                self.leave(run);
            }
        }
    }

    fn enter(&mut self, run: Run) -> u32 {
        let key = run.key;
        let at = match self.vacant {
            NONE => {
                if self.runs.len() == self.runs.capacity() {
                    // Doubling would leave a quarter of the memory unused.
                    self.runs.reserve_exact(self.runs.len() / 8 + 4);
                }
                self.runs.push(run);
                self.runs.len() as u32 - 1
            }
            at => {
                let entry = &mut self.runs[at as usize];
                self.vacant = entry.after;
                *entry = run;
                at
            }
        };
        self.index.insert_unique(key, at, |run| self.runs[*run as usize].key);
        at
    }

    fn leave(&mut self, run: u32) {
        let entry = &mut self.runs[run as usize];
        let held = self.index.find_entry(entry.key, |held| *held == run);
        held.expect("every run is in the index").remove();
        entry.marks = Vec::new();
        entry.after = self.vacant;
        self.vacant = run;
    }

    /// Puts a run into the list, to be evicted last.
    fn push_back(&mut self, run: u32) {
        let last = core::mem::replace(&mut self.back, run);
        let entry = &mut self.runs[run as usize];
        (entry.before, entry.after) = (last, NONE);
        match last {
            NONE => self.front = run,
            _ => self.runs[last as usize].after = run,
        }
    }

    /// Puts `run` into the list right before `next`.
    fn insert(&mut self, run: u32, next: u32) {
        let before = core::mem::replace(&mut self.runs[next as usize].before, run);
        let entry = &mut self.runs[run as usize];
        (entry.before, entry.after) = (before, next);
        match before {
            NONE => self.front = run,
            _ => self.runs[before as usize].after = run,
        }
    }

    /// Takes a run out of the list.
    fn remove(&mut self, run: u32) {
        let Run { before, after, .. } = self.runs[run as usize];
        match before {
            NONE => self.front = after,
            _ => self.runs[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            _ => self.runs[after as usize].before = before,
        }
    }

    /// Checks all runs, given a run once for each of its references. Returns the referenced blocks.
    pub(super) fn check(&self, references: Vec<u32>) -> u32 {
        let mut counted = alloc::vec![0; self.runs.len()];
        for run in references {
            counted[run as usize] += 1;
        }
        let next = |run: u32| (run != NONE).then_some(run);
        let list: Vec<u32> =
            core::iter::successors(next(self.front), |run| next(self.runs[*run as usize].after))
                .collect();
        let idle = list.iter().map(|run| self.len(*run)).sum::<u32>();
        assert_eq!(idle, self.idle, "blocks without references");
        assert_eq!(list.last().copied(), next(self.back), "the list ends at its back");
        let mut listed = alloc::vec![false; self.runs.len()];
        list.iter().for_each(|run| listed[*run as usize] = true);
        let mut blocks = 0;
        for run in self.index.iter() {
            let entry = &self.runs[*run as usize];
            blocks += self.len(*run);
            assert!(!entry.marks.is_empty(), "no run is empty");
            let found =
                self.index.find(entry.key, |other| self.runs[*other as usize].key == entry.key);
            assert_eq!(found, Some(run), "run {run} is found");
            assert_eq!(entry.references, counted[*run as usize], "references of run {run}");
            let listed = listed[*run as usize];
            assert_eq!(entry.references == 0, listed, "run {run} is in the list");
        }
        assert_eq!(blocks, self.blocks, "blocks of all runs");
        blocks - idle
    }
}
