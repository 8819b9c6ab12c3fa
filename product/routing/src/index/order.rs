//! Each target's order of eviction: a doubly linked list of its holds, newest to oldest.
//!
//! A hold is the part of a run that one target has; its blocks are adjacent in the order, each on
//! the newer side of the next. A hold is on the newer side of its children, so the last block of
//! the oldest hold is always a leaf. The list itself is the record of age.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// No hold.
pub(super) const NONE: u32 = u32::MAX;

fn some(hold: u32) -> Option<u32> {
    Some(hold).filter(|h| *h != NONE)
}

/// The part of one run that one target has. The run stores the length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) run: u32,
    /// The target's hold that is its parent.
    pub(super) parent: u32,
    /// Number of child holds.
    pub(super) children: u32,
    /// Neighbour in the order, towards the most recent.
    pub(super) newer: u32,
    /// Neighbour in the order, towards the next victim; the next free one when free.
    pub(super) older: u32,
    /// When it was last used, in ms, for rules that forget by age.
    pub(super) used: u32,
    pub(super) target: u16,
}

/// One target's ends, size and cap in blocks.
#[derive(Clone, Debug)]
struct OrderRow {
    newest: u32,
    oldest: u32,
    held: u32,
    cap: u32,
    /// Its index among the targets that hold something.
    active: u16,
}

/// The row of a target that holds nothing.
fn empty(cap: usize) -> OrderRow {
    OrderRow { newest: NONE, oldest: NONE, held: 0, cap: cap as u32, active: 0 }
}

/// All targets' orders.
#[derive(Debug)]
pub(super) struct Orders {
    rows: Vec<OrderRow>,
    /// Targets that hold something, unordered.
    active: Vec<u16>,
    /// Where the search for the next victim starts among them.
    hand: usize,
    /// Live and free ones; they refer to each other by index.
    holds: Vec<Hold>,
    free: u32,
    /// Blocks that all targets hold.
    total: usize,
}

impl Orders {
    pub(super) fn new(targets: usize, cap: usize, holds: usize) -> Orders {
        Orders {
            rows: vec![empty(cap); targets],
            active: Vec::with_capacity(targets),
            hand: 0,
            holds: Vec::with_capacity(holds),
            free: NONE,
            total: 0,
        }
    }

    /// Makes room for targets up to this number.
    pub(super) fn allow(&mut self, targets: usize, cap: usize) {
        if targets > self.rows.len() {
            self.rows.resize(targets, empty(cap));
        }
    }

    pub(super) fn targets(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<OrderRow>()
            + self.active.capacity() * size_of::<u16>()
            + self.holds.capacity() * size_of::<Hold>()
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn held(&self, target: u16) -> usize {
        self.rows[usize::from(target)].held as usize
    }

    pub(super) fn cap(&self, target: u16) -> usize {
        self.rows[usize::from(target)].cap as usize
    }

    pub(super) fn set_cap(&mut self, target: u16, cap: usize) {
        self.rows[usize::from(target)].cap = cap as u32;
    }

    pub(super) fn oldest(&self, target: u16) -> Option<u32> {
        some(self.rows[usize::from(target)].oldest)
    }

    /// A target's holds, from the most recent on.
    pub(super) fn newest_first(&self, target: u16) -> impl Iterator<Item = u32> + '_ {
        let newest = some(self.rows[usize::from(target)].newest);
        core::iter::successors(newest, move |hold| some(self[*hold].older))
    }

    /// Whether a target has a leaf to evict: any leaf, or for the target in `spare`, one beyond its
    /// newest few blocks.
    pub(super) fn may_give(&self, target: u16, spare: (u16, usize)) -> bool {
        self.held(target) > if target == spare.0 { spare.1 } else { 0 }
    }

    /// The fullest (size relative to cap) of the next few targets in turn. The target in `spare`
    /// qualifies only when it holds more than its newest few blocks.
    pub(super) fn victim(&mut self, looks: usize, spare: (u16, usize)) -> Option<u16> {
        let count = self.active.len();
        self.hand = (self.hand + 1).checked_rem(count)?;
        let mut best: Option<(u16, u64, u64)> = None;
        let mut seen = 0;
        for step in 0..count {
            let target = self.active[(self.hand + step) % count];
            if !self.may_give(target, spare) {
                continue;
            }
            let row = &self.rows[usize::from(target)];
            let (held, cap) = (u64::from(row.held), u64::from(row.cap.max(1)));
            if best.is_none_or(|(_, h, c)| held * c > h * cap) {
                best = Some((target, held, cap));
            }
            seen += 1;
            if seen == looks {
                break;
            }
        }
        best.map(|(target, ..)| target)
    }

    /// The target got blocks.
    pub(super) fn gained(&mut self, target: u16, blocks: usize) {
        let row = &mut self.rows[usize::from(target)];
        if row.held == 0 {
            row.active = self.active.len() as u16;
            self.active.push(target);
        }
        row.held += blocks as u32;
        self.total += blocks;
    }

    /// The target lost blocks.
    pub(super) fn lost(&mut self, target: u16, blocks: usize) {
        let row = &mut self.rows[usize::from(target)];
        assert!(row.held as usize >= blocks, "target {target} loses what it holds");
        row.held -= blocks as u32;
        self.total -= blocks;
        if row.held == 0 {
            let hole = usize::from(row.active);
            self.active.swap_remove(hole);
            if let Some(moved) = self.active.get(hole) {
                self.rows[usize::from(*moved)].active = hole as u16;
            }
        }
    }

    /// Adds a new child hold of `parent` to its target's list, right behind `newer` or as the
    /// newest of all.
    pub(super) fn enter(&mut self, target: u16, run: u32, parent: u32, newer: u32) -> u32 {
        let (older, used) = (NONE, 0);
        let hold = self.take(Hold { run, parent, children: 0, newer: NONE, older, used, target });
        if parent != NONE {
            self[parent].children += 1;
        }
        self.link(hold, newer);
        hold
    }

    /// Makes a hold of the blocks before those of `below`, which becomes its child.
    pub(super) fn enter_above(&mut self, below: u32, below_run: u32) -> u32 {
        let Hold { newer, .. } = self[below];
        let above = self.take(Hold { children: 1, ..self[below] });
        self.link(above, newer);
        (self[below].parent, self[below].run) = (above, below_run);
        above
    }

    /// Removes a hold without children from its target's list.
    pub(super) fn exit(&mut self, hold: u32) {
        assert_eq!(self[hold].children, 0, "a hold leaves after its children");
        let parent = self[hold].parent;
        if parent != NONE {
            assert!(self[parent].children > 0, "a child is counted at its parent");
            self[parent].children -= 1;
        }
        self.unlink(hold);
        self[hold].older = self.free;
        self.free = hold;
    }

    /// Moves a listed hold right behind `newer`, or to the newest end.
    pub(super) fn place(&mut self, hold: u32, newer: u32) {
        if self[hold].newer != newer {
            self.unlink(hold);
            self.link(hold, newer);
        }
    }

    fn take(&mut self, hold: Hold) -> u32 {
        if self.free == NONE {
            self.holds.push(hold);
            return self.holds.len() as u32 - 1;
        }
        let place = self.free;
        self.free = self[place].older;
        self[place] = hold;
        place
    }

    fn link(&mut self, hold: u32, newer: u32) {
        let row = &mut self.rows[usize::from(self.holds[hold as usize].target)];
        let older = match newer {
            NONE => core::mem::replace(&mut row.newest, hold),
            newer => core::mem::replace(&mut self.holds[newer as usize].older, hold),
        };
        match older {
            NONE => row.oldest = hold,
            older => self.holds[older as usize].newer = hold,
        }
        (self[hold].newer, self[hold].older) = (newer, older);
    }

    fn unlink(&mut self, hold: u32) {
        let Hold { newer, older, target, .. } = self[hold];
        let row = &mut self.rows[usize::from(target)];
        match newer {
            NONE => row.newest = older,
            newer => self.holds[newer as usize].older = older,
        }
        match older {
            NONE => row.oldest = newer,
            older => self.holds[older as usize].newer = newer,
        }
    }
}

impl Index<u32> for Orders {
    type Output = Hold;
    #[inline]
    fn index(&self, hold: u32) -> &Hold {
        &self.holds[hold as usize]
    }
}

impl IndexMut<u32> for Orders {
    #[inline]
    fn index_mut(&mut self, hold: u32) -> &mut Hold {
        &mut self.holds[hold as usize]
    }
}
