//! Each target's order of eviction: a doubly linked list of its entries, newest to oldest.
//!
//! A block always stands on the newer side of its children, so the oldest entry is a leaf. The
//! list itself is the only record of age: there are no timestamps.

use alloc::vec;
use alloc::vec::Vec;

use super::entries::{Entries, NONE};

/// One target's ends, size and cap.
#[derive(Clone, Debug)]
struct Row {
    newest: u32,
    oldest: u32,
    held: u32,
    cap: u32,
    /// Its place among the targets that hold something.
    active: u16,
}

/// All targets' orders.
#[derive(Debug)]
pub(super) struct Orders {
    rows: Vec<Row>,
    /// Targets that hold something, in no order.
    active: Vec<u16>,
    /// Where the search for the next victim starts among them.
    hand: usize,
}

impl Orders {
    pub(super) fn new(targets: usize, cap: usize) -> Orders {
        let row = Row { newest: NONE, oldest: NONE, held: 0, cap: cap as u32, active: 0 };
        Orders { rows: vec![row; targets], active: Vec::with_capacity(targets), hand: 0 }
    }

    pub(super) fn targets(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.active.capacity() * size_of::<u16>()
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

    pub(super) fn newest(&self, target: u16) -> u32 {
        self.rows[usize::from(target)].newest
    }

    pub(super) fn oldest(&self, target: u16) -> Option<u32> {
        Some(self.rows[usize::from(target)].oldest).filter(|e| *e != NONE)
    }

    /// Whether a target has a leaf to give: any at all, and more than its newest few when it is
    /// the one in `spare`.
    pub(super) fn may_give(&self, target: u16, spare: (u16, usize)) -> bool {
        self.held(target) > if target == spare.0 { spare.1 } else { 0 }
    }

    /// The fullest (held relative to cap) of the next few targets in turn. The target in `spare`
    /// counts only when it holds more than its newest few.
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

    /// Lists a new entry right behind `parent`, or as the newest of all.
    pub(super) fn enter(&mut self, entries: &mut Entries, entry: u32, parent: u32) {
        let target = entries[entry].target;
        let row = &mut self.rows[usize::from(target)];
        if row.held == 0 {
            row.active = self.active.len() as u16;
            self.active.push(target);
        }
        row.held += 1;
        self.link(entries, entry, parent);
    }

    /// Moves a listed entry right behind `parent`, or to the newest end.
    pub(super) fn place(&mut self, entries: &mut Entries, entry: u32, parent: u32) {
        if entry != parent && entries[entry].newer != parent {
            self.unlink(entries, entry);
            self.link(entries, entry, parent);
        }
    }

    /// Takes an entry off its target's list.
    pub(super) fn exit(&mut self, entries: &mut Entries, entry: u32) {
        self.unlink(entries, entry);
        let row = &mut self.rows[usize::from(entries[entry].target)];
        row.held -= 1;
        if row.held == 0 {
            let hole = usize::from(row.active);
            self.active.swap_remove(hole);
            if let Some(moved) = self.active.get(hole) {
                self.rows[usize::from(*moved)].active = hole as u16;
            }
        }
    }

    fn link(&mut self, entries: &mut Entries, entry: u32, parent: u32) {
        let row = &mut self.rows[usize::from(entries[entry].target)];
        let behind = match parent {
            NONE => core::mem::replace(&mut row.newest, entry),
            parent => core::mem::replace(&mut entries[parent].older, entry),
        };
        (entries[entry].newer, entries[entry].older) = (parent, behind);
        match behind {
            NONE => row.oldest = entry,
            behind => entries[behind].newer = entry,
        }
    }

    fn unlink(&mut self, entries: &mut Entries, entry: u32) {
        let (newer, older) = (entries[entry].newer, entries[entry].older);
        let row = &mut self.rows[usize::from(entries[entry].target)];
        match newer {
            NONE => row.newest = older,
            newer => entries[newer].older = older,
        }
        match older {
            NONE => row.oldest = newer,
            older => entries[older].newer = newer,
        }
    }
}
