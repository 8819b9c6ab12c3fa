//! Who holds a block: its head, and from there a short list or a set.
//!
//! The head is found under the block's hash alone, every other holder under hash and target. Up
//! to [`LIST`] holders are a list through their entries; beyond, a set from the pool. When a head
//! leaves, another holder takes its place.

use meridian_base::mix;

use super::PrefixIndex;
use super::entries::{Entries, Entry, Link, NONE};

/// Most holders in a list, as long as there are sets.
const LIST: u16 = 8;
/// Fewest holders in a set. Below [`LIST`], lest a block at the border flips to and fro.
const SET: u16 = 5;

pub(super) fn head_key(hash: u64) -> u64 {
    mix(hash, 0)
}

fn other_key(hash: u64, target: u16) -> u64 {
    mix(hash, 1 + u64::from(target))
}

/// The key an entry stands under in the table.
pub(super) fn key(entry: &Entry) -> u64 {
    match entry.is_head() {
        true => head_key(entry.hash),
        false => other_key(entry.hash, entry.target),
    }
}

fn key_of(entries: &Entries) -> impl Fn(u32) -> u64 + '_ {
    |place| key(&entries[place])
}

impl PrefixIndex {
    /// The head of a block.
    #[inline]
    pub(super) fn head(&self, hash: u64) -> Option<u32> {
        let is = |p| self.entries[p].hash == hash && self.entries[p].is_head();
        self.table.find(head_key(hash), is)
    }

    /// The target that has held a block for longest, of those that hold it; where one that held
    /// it for longer has left, any.
    #[must_use]
    pub fn first_holder(&self, hash: u64) -> Option<u16> {
        self.head(hash).map(|head| self.entries[head].target)
    }

    /// The entry of a block at a target.
    pub(super) fn find(&self, hash: u64, target: u16) -> Option<u32> {
        self.holder(self.head(hash)?, target)
    }

    /// The entry at `target` of the block with this head.
    pub(super) fn holder(&self, head: u32, target: u16) -> Option<u32> {
        let first = &self.entries[head];
        if first.target == target {
            return Some(head);
        }
        let hash = first.hash;
        match first.link() {
            Link::List(NONE) => None,
            Link::Set(set) if !self.sets.has(set, target) => None,
            _ => self.table.find(other_key(hash, target), |p| {
                let e = &self.entries[p];
                e.hash == hash && e.target == target && !e.is_head()
            }),
        }
    }

    /// Makes an entry for the block at `target`, not yet in its order. `None` when it has one.
    pub(super) fn join(&mut self, hash: u64, target: u16) -> Option<u32> {
        let Some(head) = self.head(hash) else {
            let entry = self.entries.take(hash, target, 1)?;
            self.table.insert(head_key(hash), entry, key_of(&self.entries));
            return Some(entry);
        };
        if self.holder(head, target).is_some() {
            return None;
        }
        let entry = self.entries.take(hash, target, 0)?;
        self.table.insert(other_key(hash, target), entry, key_of(&self.entries));
        self.entries[head].holders += 1;
        match self.entries[head].link() {
            Link::Set(set) => self.sets.add(set, target),
            Link::List(next) => {
                self.entries[entry].set_link(Link::List(next));
                self.entries[head].set_link(Link::List(entry));
                self.list_to_set(head);
            }
        }
        Some(entry)
    }

    /// Takes an entry out of the table and its block's holders.
    pub(super) fn leave(&mut self, entry: u32) {
        let leaving = self.entries[entry];
        if leaving.holders == 1 {
            self.table.remove(head_key(leaving.hash), entry, key_of(&self.entries));
        } else if leaving.is_head() {
            self.succeed(entry);
        } else {
            let key = other_key(leaving.hash, leaving.target);
            self.table.remove(key, entry, key_of(&self.entries));
            let head = self.head(leaving.hash).expect("a block with holders has a head");
            self.entries[head].holders -= 1;
            match self.entries[head].link() {
                Link::Set(set) => self.sets.drop(set, leaving.target),
                Link::List(first) => self.drop_from_list(head, first, entry),
            }
            self.set_to_list(head);
        }
    }

    /// Makes another holder the head in place of `old`.
    fn succeed(&mut self, old: u32) {
        let leaving = self.entries[old];
        let (heir, link) = match leaving.link() {
            Link::List(next) => (next, self.entries[next].link()),
            Link::Set(set) => {
                self.sets.drop(set, leaving.target);
                let target = self.sets.first(set, 0).expect("a set has several targets");
                let heir = self.holder(old, target);
                (heir.expect("a target in the set has an entry"), Link::Set(set))
            }
        };
        let key = other_key(leaving.hash, self.entries[heir].target);
        self.table.remove(key, heir, key_of(&self.entries));
        self.table.replace(head_key(leaving.hash), old, heir);
        self.entries[heir].holders = leaving.holders - 1;
        self.entries[heir].set_link(link);
        self.set_to_list(heir);
    }

    fn drop_from_list(&mut self, head: u32, first: u32, entry: u32) {
        let after = self.entries[entry].link();
        let (mut before, mut at) = (head, first);
        while at != entry {
            before = at;
            at = match self.entries[at].link() {
                Link::List(next) => next,
                Link::Set(_) => unreachable!("only a head leads to a set"),
            };
        }
        self.entries[before].set_link(after);
    }

    /// Turns a list that has grown long into a set, if there is one.
    fn list_to_set(&mut self, head: u32) {
        if self.entries[head].holders <= LIST {
            return;
        }
        let Some(set) = self.sets.take() else { return };
        let mut at = head;
        while at != NONE {
            self.sets.add(set, self.entries[at].target);
            at = match self.entries[at].link() {
                Link::List(next) => next,
                Link::Set(_) => unreachable!("only a head leads to a set"),
            };
        }
        self.entries[head].set_link(Link::Set(set));
    }

    /// Turns a set that has shrunk into a list, giving the set back.
    fn set_to_list(&mut self, head: u32) {
        let Link::Set(set) = self.entries[head].link() else { return };
        if self.entries[head].holders >= SET {
            return;
        }
        let mut next = NONE;
        let mut from = Some(0);
        while let Some(target) = from.and_then(|f| self.sets.first(set, f)) {
            let entry = self.holder(head, target).expect("a target in the set has an entry");
            if entry != head {
                self.entries[entry].set_link(Link::List(next));
                next = entry;
            }
            from = target.checked_add(1).filter(|t| usize::from(*t) < self.orders.targets());
        }
        self.entries[head].set_link(Link::List(next));
        self.sets.give_back(set);
    }
}
