//! Tests of the machine's data structures against naive twins, with random event lists from seeds
//! and every short event list over a small alphabet. The twins are slow and simple. After each
//! event the real structure must agree in every query, and its invariants must hold.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::{ReplicaId, Rng, mix};
use meridian_routing::{Evict, PrefixIndex, Ring};

/// The index written without regard for speed: each target's blocks in a vector, newest first.
#[derive(Clone)]
struct Twin {
    orders: Vec<Vec<u64>>,
    caps: Vec<usize>,
    total: usize,
    evict: Evict,
    /// The parent of each block; 0 for a root.
    parents: BTreeMap<u64, u64>,
    active: Vec<u16>,
    hand: usize,
}

impl Twin {
    fn new(total: usize, targets: usize, evict: Evict) -> Twin {
        Twin {
            orders: vec![Vec::new(); targets],
            caps: vec![total; targets],
            total,
            evict,
            parents: BTreeMap::new(),
            active: Vec::new(),
            hand: 0,
        }
    }

    fn len(&self) -> usize {
        self.orders.iter().map(Vec::len).sum()
    }

    fn depth(&self, target: u16, blocks: &[u64]) -> u32 {
        let held = &self.orders[usize::from(target)];
        blocks.iter().take_while(|b| held.contains(b)).count() as u32
    }

    fn forget(&mut self, target: u16, block: u64) {
        let order = &mut self.orders[usize::from(target)];
        order.retain(|b| *b != block);
        if order.is_empty() {
            let at = self.active.iter().position(|t| *t == target).expect("listed while it holds");
            self.active.swap_remove(at);
        }
    }

    fn evict_oldest(&mut self, target: u16) {
        let oldest = *self.orders[usize::from(target)].last().expect("holds something");
        self.forget(target, oldest);
    }

    fn fullest(&mut self, target: u16, placed: usize) -> u16 {
        self.hand = (self.hand + 1) % self.active.len();
        let turn = self.active[self.hand..].iter().chain(&self.active[..self.hand]);
        let held = |t: u16| self.orders[usize::from(t)].len();
        let may = turn.filter(|t| **t != target || held(**t) > placed).take(8);
        let share = |t: u16| held(t) as f64 / self.caps[usize::from(t)] as f64;
        let mut best = None;
        for &t in may {
            if best.is_none_or(|b| share(t) > share(b)) {
                best = Some(t);
            }
        }
        best.expect("some target holds a block")
    }

    fn insert(&mut self, target: u16, blocks: &[u64]) {
        let t = usize::from(target);
        let blocks = &blocks[..blocks.len().min(self.caps[t]).min(self.total)];
        let known = self.depth(target, blocks) as usize;
        if blocks.is_empty() || self.evict == Evict::EarliestInserted && known == blocks.len() {
            return;
        }
        let order = &mut self.orders[t];
        order.retain(|b| !blocks[..known].contains(b));
        order.splice(0..0, blocks[..known].iter().copied());
        let mut victim = None;
        for placed in known..blocks.len() {
            if placed == known || placed % 16 == 0 {
                victim = None;
            }
            if self.orders[t].len() >= self.caps[t] {
                self.evict_oldest(target);
            } else if self.len() >= self.total {
                let spent = |v: u16| {
                    self.orders[usize::from(v)].len() <= if v == target { placed } else { 0 }
                };
                let from = match victim {
                    Some(v) if !spent(v) => v,
                    _ => self.fullest(target, placed),
                };
                victim = Some(from);
                self.evict_oldest(from);
            }
            if self.orders[t].is_empty() {
                self.active.push(target);
            }
            self.orders[t].insert(placed, blocks[placed]);
            self.parents.insert(blocks[placed], if placed > 0 { blocks[placed - 1] } else { 0 });
        }
    }

    fn is_leaf(&self, target: u16, block: u64) -> bool {
        !self.orders[usize::from(target)].iter().any(|b| self.parents[b] == block)
    }

    fn truncate(&mut self, target: u16, blocks: &[u64], keep: u32) -> u32 {
        let depth = self.depth(target, blocks);
        let mut left = depth;
        while left > keep && self.is_leaf(target, blocks[left as usize - 1]) {
            left -= 1;
            self.forget(target, blocks[left as usize]);
        }
        depth - left
    }

    fn remove_target(&mut self, target: u16) {
        while !self.orders[usize::from(target)].is_empty() {
            self.evict_oldest(target);
        }
        self.caps[usize::from(target)] = self.total;
    }

    fn set_cap(&mut self, target: u16, cap: usize) {
        self.caps[usize::from(target)] = cap.min(self.total);
        while self.orders[usize::from(target)].len() > self.caps[usize::from(target)] {
            self.evict_oldest(target);
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Insert(u16, Vec<u64>),
    Truncate(u16, Vec<u64>, u32),
    Remove(u16),
    Cap(u16, usize),
}

/// Applies an event to both and compares all queries.
fn step(index: &mut PrefixIndex, twin: &mut Twin, event: &Event) {
    match event {
        Event::Insert(t, blocks) => {
            index.insert(*t, blocks);
            twin.insert(*t, blocks);
        }
        Event::Truncate(t, blocks, keep) => {
            let forgotten = index.truncate(*t, blocks, *keep);
            assert_eq!(forgotten, twin.truncate(*t, blocks, *keep), "blocks forgotten");
        }
        Event::Remove(t) => {
            index.remove_target(*t);
            twin.remove_target(*t);
        }
        Event::Cap(t, cap) => {
            index.set_cap(*t, *cap);
            twin.set_cap(*t, *cap);
        }
    }
    index.check_invariants();
    assert_eq!(index.len(), twin.len());
    for t in 0..twin.orders.len() {
        assert_eq!(index.held_by(t as u16), twin.orders[t].len(), "held by {t}");
    }
}

/// Compares the depths of one chain at all targets.
fn compare(index: &PrefixIndex, twin: &Twin, blocks: &[u64]) {
    let mut depth = vec![u32::MAX; twin.orders.len()];
    index.matches(blocks, &mut depth);
    for (t, d) in depth.iter().enumerate() {
        assert_eq!(*d, twin.depth(t as u16, blocks), "depth at target {t}");
        assert_eq!(index.longest(blocks, t as u16), *d, "longest at target {t}");
    }
}

/// A chain through a random tree: narrow near the root, so that chains share many blocks.
fn chain(rng: &mut Rng, longest: usize, parents: &mut BTreeMap<u64, u64>) -> Vec<u64> {
    let length = rng.below(longest + 1);
    let (mut blocks, mut at) = (Vec::new(), 0);
    for depth in 0..length {
        let label = if depth % 3 == 2 { rng.below(3) as u64 } else { 0 };
        let next = mix(at, label + 1);
        parents.insert(next, at);
        blocks.push(next);
        at = next;
    }
    blocks
}

struct World {
    targets: usize,
    /// Targets that hold anything.
    active: usize,
    total: usize,
    longest: usize,
    events: usize,
    evict: Evict,
}

fn run(seed: u64, world: &World) {
    let mut rng = Rng::new(seed);
    let mut index = PrefixIndex::new(world.total, world.targets, world.evict);
    let mut twin = Twin::new(world.total, world.targets, world.evict);
    let mut parents = BTreeMap::new();
    for _ in 0..world.events {
        let t = rng.below(world.active) as u16;
        let blocks = chain(&mut rng, world.longest, &mut parents);
        let event = match rng.below(20) {
            0 => Event::Cap(t, rng.below(world.total / 2) + 1),
            1 => Event::Remove(t),
            2..5 => Event::Truncate(t, blocks, rng.below(world.longest) as u32),
            _ => Event::Insert(t, blocks),
        };
        step(&mut index, &mut twin, &event);
        compare(&index, &twin, &chain(&mut rng, world.longest, &mut parents));
    }
    // The twin's blocks are closed under parents. This is the subset property, which the real index
    // therefore has too.
    for order in &twin.orders {
        let held: BTreeSet<u64> = order.iter().copied().collect();
        assert!(held.iter().all(|b| parents[b] == 0 || held.contains(&parents[b])));
    }
}

// Few targets, much eviction within each and across them.
#[test]
fn index_agrees_with_its_twin_under_eviction() {
    for seed in 0..40 {
        for evict in [Evict::LeastRecent, Evict::EarliestInserted] {
            run(seed, &World { targets: 5, active: 5, total: 40, longest: 14, events: 150, evict });
        }
    }
}

// Many targets share short chains: a run has many holders, each of another length.
#[test]
fn index_agrees_with_its_twin_with_many_holders() {
    for seed in 0..12 {
        for evict in [Evict::LeastRecent, Evict::EarliestInserted] {
            run(
                seed,
                &World { targets: 130, active: 130, total: 700, longest: 12, events: 300, evict },
            );
        }
    }
}

// Long chains that diverge in many places, held by ten targets: runs are split for all holders.
#[test]
fn index_agrees_with_its_twin_when_runs_are_split() {
    for seed in 0..6 {
        let evict = Evict::LeastRecent;
        run(
            seed,
            &World { targets: 1_000, active: 12, total: 2_000, longest: 160, events: 150, evict },
        );
    }
}

// Long chains with capacity for all: a chain is a single run, or a few.
#[test]
fn index_agrees_with_its_twin_on_long_chains() {
    for seed in 0..6 {
        let evict = Evict::LeastRecent;
        run(
            seed,
            &World { targets: 12, active: 12, total: 3_000, longest: 600, events: 60, evict },
        );
    }
}

// Every list of four events over a small alphabet, with a total of 4 entries and caps of 3, so that
// small cases are covered completely.
#[test]
fn index_agrees_with_its_twin_on_every_short_history() {
    let chains: [&[u64]; 4] = [&[1], &[1, 2], &[1, 3], &[1, 2, 4]];
    let mut alphabet = Vec::new();
    for t in 0..2 {
        alphabet.extend(chains.iter().map(|c| Event::Insert(t, c.to_vec())));
        alphabet.push(Event::Truncate(t, vec![1, 2, 4], 1));
        alphabet.push(Event::Truncate(t, vec![1, 3], 0));
        alphabet.push(Event::Remove(t));
    }
    let mut histories = 0;
    for code in 0..alphabet.len().pow(4) {
        for evict in [Evict::LeastRecent, Evict::EarliestInserted] {
            let mut index = PrefixIndex::new(4, 2, evict);
            let mut twin = Twin::new(4, 2, evict);
            step(&mut index, &mut twin, &Event::Cap(0, 3));
            let mut rest = code;
            for _ in 0..4 {
                step(&mut index, &mut twin, &alphabet[rest % alphabet.len()]);
                rest /= alphabet.len();
            }
            for blocks in chains {
                compare(&index, &twin, blocks);
            }
            histories += 1;
        }
    }
    assert_eq!(histories, 2 * 14usize.pow(4));
}

// A full target evicts the least recently used leaf, never a block with children.
#[test]
fn least_recent_leaf_goes_first() {
    let mut index = PrefixIndex::new(100, 1, Evict::LeastRecent);
    index.set_cap(0, 4);
    index.insert(0, &[1, 2, 3]);
    index.insert(0, &[1, 5]);
    index.insert(0, &[1, 2, 3]);
    index.insert(0, &[1, 6]);
    assert_eq!(index.longest(&[1, 5], 0), 1, "5 was the oldest leaf");
    assert_eq!(index.longest(&[1, 2, 3], 0), 3);
    index.insert(0, &[7]);
    assert_eq!(index.longest(&[1, 2, 3], 0), 2, "3 goes before its parent");
}

// With eviction by insertion order, use alone does not keep a leaf.
#[test]
fn earliest_inserted_leaf_goes_first_however_used() {
    let mut index = PrefixIndex::new(100, 1, Evict::EarliestInserted);
    index.set_cap(0, 3);
    index.insert(0, &[1, 2]);
    index.insert(0, &[1, 3]);
    index.insert(0, &[1, 2]);
    index.insert(0, &[1, 4]);
    assert_eq!(index.longest(&[1, 2], 0), 1);
    assert_eq!(index.longest(&[1, 3], 0), 2);
}

// Truncating a chain leaves the blocks that other chains depend on.
#[test]
fn truncating_spares_the_branches_of_others() {
    let mut index = PrefixIndex::new(100, 1, Evict::LeastRecent);
    index.insert(0, &[1, 2, 3]);
    index.insert(0, &[1, 2, 4, 5]);
    assert_eq!(index.truncate(0, &[1, 2, 4, 5], 1), 2, "5 and 4, not 2");
    assert_eq!(index.longest(&[1, 2, 3], 0), 3);
    assert_eq!(index.truncate(0, &[1, 2], 0), 0);
}

// No panic on a target out of range, an empty chain, a chain that repeats itself, a cap of 0, or a
// buffer too short.
#[test]
fn bad_input_is_survived() {
    let mut index = PrefixIndex::new(3, 2, Evict::LeastRecent);
    index.insert(9, &[1]);
    index.set_cap(9, 1);
    index.remove_target(9);
    assert_eq!((index.held_by(9), index.longest(&[1], 9)), (0, 0));
    index.insert(0, &[]);
    for repeating in [&[1, 1, 1][..], &[1, 2, 1, 2, 3], &[4, 4, 5, 6, 7]] {
        index.insert(0, repeating);
        index.insert(1, repeating);
        index.check_invariants();
    }
    index.set_cap(0, 0);
    index.insert(0, &[1]);
    assert_eq!(index.held_by(0), 0);
    let mut short = [9; 1];
    index.matches(&[4], &mut short);
    assert_eq!(short, [0]);
    index.matches(&[], &mut short);
}

// An entry (a block at a target) takes 8 bytes for its hash plus a share of its run's overhead:
// next to nothing if chains are long, and 120 bytes if each is a single block.
#[test]
fn memory_is_within_its_budget() {
    for (long, targets, most) in [(200, 1, 16), (200, 8, 8), (12, 1, 24), (12, 8, 12), (1, 1, 120)]
    {
        let mut index = PrefixIndex::new(1 << 18, 8, Evict::LeastRecent);
        for chain in 0..(2 << 18) / (long * targets) {
            let blocks: Vec<u64> = (0..long).map(|at| mix(chain, at)).collect();
            (0..targets).for_each(|target| index.insert(target as u16, &blocks));
        }
        assert_eq!(index.len(), 1 << 18);
        let each = index.bytes_allocated() as f64 / index.len() as f64;
        assert!(each <= f64::from(most), "{long} blocks at {targets}: {each:.1} bytes an entry");
        assert!(each >= 1.0, "{each:.1} bytes cannot hold an entry");
    }
}

// ---- the ring ----

fn ring(members: impl IntoIterator<Item = u16>, vnodes: u32) -> Ring {
    let members: Vec<_> = members.into_iter().map(|m| (ReplicaId(m), 1)).collect();
    Ring::new(&members, vnodes)
}

fn owner(ring: &Ring, key: u64) -> ReplicaId {
    ring.walk(key).next().expect("the ring has members")
}

// A walk meets every member once, in the order in which members take over when those before them
// are gone: leaving the first out of the ring makes the second the first, and so on.
#[test]
fn a_walk_is_the_order_of_succession() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut left: Vec<u16> = (0..1 + rng.below(12) as u16).map(|m| m * 5).collect();
        let vnodes = 1 + rng.below(20) as u32;
        let key = rng.next_u64();
        let whole = ring(left.iter().copied(), vnodes);
        let order: Vec<_> = whole.walk(key).collect();
        assert_eq!((order.len(), whole.members()), (left.len(), left.len()));
        for next in order {
            assert_eq!(owner(&ring(left.iter().copied(), vnodes), key), next, "seed {seed}");
            left.retain(|m| *m != next.0);
        }
        assert!(left.is_empty());
    }
}

// When a member joins, keys move to it alone; when it leaves, its keys alone move. The number
// that moves is its share.
#[test]
fn only_the_share_of_a_member_moves() {
    let (before, after) = (ring(0..20, 100), ring(0..21, 100));
    let mut moved = 0;
    for key in 0..20_000 {
        let (old, new) = (owner(&before, key), owner(&after, key));
        if old != new {
            assert_eq!(new, ReplicaId(20), "key {key} moved between members that stayed");
            moved += 1;
        }
    }
    let share = 20_000 / 21;
    assert!((share / 2..share * 2).contains(&moved), "{moved} of 20000 keys moved");
}

/// The largest and the smallest member's share of keys, relative to the mean.
fn spread(members: u16, vnodes: u32) -> (f64, f64) {
    let ring = ring(0..members, vnodes);
    let mut keys = vec![0u32; usize::from(members)];
    let total = 4_000 * u32::from(members);
    for key in 0..u64::from(total) {
        keys[owner(&ring, key).index()] += 1;
    }
    let mean = f64::from(total) / f64::from(members);
    let most = keys.iter().max().expect("there are members");
    let least = keys.iter().min().expect("there are members");
    (f64::from(*most) / mean, f64::from(*least) / mean)
}

// A member's share has a relative deviation of about 1/sqrt(vnodes): 10 % with 100 virtual nodes
// and 6 % with 256. Among 50 members the extremes stay within four of those deviations.
#[test]
fn shares_are_balanced() {
    for vnodes in [100, 256] {
        let bound = 4.0 / f64::from(vnodes).sqrt();
        let (most, least) = spread(50, vnodes);
        assert!(most < 1.0 + bound, "{vnodes} virtual nodes: largest share {most}");
        assert!(least > 1.0 - bound, "{vnodes} virtual nodes: smallest share {least}");
    }
}

// A weight multiplies a member's share, 0 leaves it out, and an empty ring has no members.
#[test]
fn weights_and_edges() {
    let members = [(ReplicaId(1), 1), (ReplicaId(2), 3), (ReplicaId(3), 0)];
    let weighted = Ring::new(&members, 100);
    let second = (0..8_000).filter(|k| owner(&weighted, *k) == ReplicaId(2)).count();
    assert!((5_200..6_800).contains(&second), "{second} of 8000 keys, 6000 expected");
    assert!(weighted.walk(5).all(|m| m != ReplicaId(3)));
    assert_eq!(Ring::new(&[], 100).walk(5).count(), 0);
    assert_eq!(ring(0..3, 0).walk(5).count(), 0);
}

// Users can see positions on the ring: they may not change with the platform, the order of the
// members, or the numbers that a process gave them.
#[test]
fn names_settle_the_ring() {
    let (a, b) = (mix(1, 1), mix(2, 2));
    let mine = Ring::named([(ReplicaId(0), a, 1), (ReplicaId(1), b, 1)].into_iter(), 50);
    let yours = Ring::named([(ReplicaId(7), b, 1), (ReplicaId(3), a, 1)].into_iter(), 50);
    for key in 0..500 {
        let same = owner(&mine, key) == ReplicaId(0);
        assert_eq!(same, owner(&yours, key) == ReplicaId(3));
    }
    let order: Vec<u16> = ring(0..8, 100).walk(42).map(|m| m.0).collect();
    assert_eq!(order, [2, 5, 3, 0, 4, 7, 6, 1]);
}
