//! Packing: how many instances of each shape fit into servers, and their combined rates.
//!
//! Equal servers are interchangeable, so the state of a cell is a sorted list of free GPUs for each
//! class of servers. Every state is reached from the full cell by placing one shape after another,
//! and keeps the Pareto-optimal pairs of total prefill and decode rates. Links between instances
//! are ignored: the result is an upper bound, and the caller judges the promising packings in full.

use core::cmp::Ordering;
use std::collections::BTreeMap;

/// A class of equal servers.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// How many.
    pub(crate) servers: u32,
    /// GPUs of each.
    pub(crate) gpus: u32,
}

/// GPUs of a shape: for each class, how many on each of its servers, in descending order.
pub(crate) type Shape = Vec<Vec<u8>>;

/// A shape with its best rates.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Its GPUs.
    pub(crate) shape: Shape,
    /// Requests a second: prefill, decode; one of them is 0.
    pub(crate) rates: (f64, f64),
}

/// A packing: pieces with the free GPUs that each uses, by class and index in the sorted list.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    /// Its goodput, ignoring links.
    pub(crate) bound: f64,
    /// Index of the piece, and the free counts of the servers it uses.
    pub(crate) steps: Vec<Step>,
}

/// One placement.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Which piece.
    pub(crate) piece: usize,
    /// For each class, free GPUs of the server of each part, in the order of the shape.
    pub(crate) found: Vec<Vec<u8>>,
}

/// Most pairs that a state keeps, if there are few states and pieces.
const FRONT: f64 = 48.0;
/// Approximate limit of comparisons; more states or pieces leave fewer pairs for each.
const BUDGET: f64 = 3e8;
/// If many pairs can be kept, one is dropped only when another is better in both by this factor:
/// links may offset smaller differences.
const SLACK: f64 = 1.25;
/// Most states.
const STATES: usize = 20_000;

/// Marks a used count; a server has fewer GPUs than this.
const TAKEN: u8 = 0x80;

type PackState = Vec<Vec<u8>>;

#[derive(Clone)]
struct Entry {
    rates: (f64, f64),
    from: Option<(usize, usize)>,
    step: Option<Step>,
}

struct Table {
    states: Vec<PackState>,
    fronts: Vec<Vec<Entry>>,
    known: BTreeMap<PackState, usize>,
    /// Most pairs of a state, and the factor by which another must be better to replace one.
    front: usize,
    slack: f64,
}

/// The packings worth judging, best first, at most `most`: with a target rate, those that may serve
/// it with the fewest GPUs, then those that serve most.
pub(crate) fn packings(
    classes: &[Class],
    pieces: &[Piece],
    rate: Option<f64>,
    most: usize,
) -> Vec<Packing> {
    let full: PackState =
        classes.iter().map(|class| vec![class.gpus as u8; class.servers as usize]).collect();
    let total = free(&full);
    let mut table = Table::new(classes, pieces.len());
    let start = table.state(full);
    table.fronts[start].push(Entry { rates: (0.0, 0.0), from: None, step: None });
    let mut waves: Vec<Vec<usize>> = vec![Vec::new(); total as usize + 1];
    waves[total as usize].push(start);
    for left in (1..=total as usize).rev() {
        for at in core::mem::take(&mut waves[left]) {
            for (next, left) in table.expand(at, pieces) {
                waves[left as usize].push(next);
            }
        }
    }
    table.best(total, rate, most)
}

fn free(state: &PackState) -> u32 {
    state.iter().flatten().map(|free| u32::from(*free)).sum()
}

impl Table {
    fn new(classes: &[Class], pieces: usize) -> Table {
        // Sorted lists of free GPUs: servers out of servers plus GPUs.
        let lists = |class: &Class| {
            (1..=class.servers)
                .map(|nth| f64::from(class.gpus + nth) / f64::from(nth))
                .product::<f64>()
        };
        let states = classes.iter().map(lists).product::<f64>().min(STATES as f64);
        let room = libm::sqrt(BUDGET / (states * (pieces.max(1) as f64)));
        let front = room.clamp(4.0, FRONT);
        let slack = if room >= FRONT { SLACK } else { 1.0 };
        let (states, fronts, known) = (Vec::new(), Vec::new(), BTreeMap::new());
        Table { states, fronts, known, front: front as usize, slack }
    }

    fn state(&mut self, state: PackState) -> usize {
        if let Some(at) = self.known.get(&state) {
            return *at;
        }
        self.known.insert(state.clone(), self.states.len());
        self.states.push(state);
        self.fronts.push(Vec::new());
        self.states.len() - 1
    }

    /// Places every piece in every way; returns the new states.
    fn expand(&mut self, at: usize, pieces: &[Piece]) -> Vec<(usize, u32)> {
        let mut reached = Vec::new();
        let state = self.states[at].clone();
        let front = self.fronts[at].clone();
        for (piece, Piece { shape, rates }) in pieces.iter().enumerate() {
            for found in placements(&state, shape) {
                if self.states.len() >= STATES {
                    return reached;
                }
                let count = self.states.len();
                let next = self.state(after(&state, shape, &found));
                if next == count {
                    reached.push((next, free(&self.states[next])));
                }
                for (nth, entry) in front.iter().enumerate() {
                    let rates = (entry.rates.0 + rates.0, entry.rates.1 + rates.1);
                    let step = Step { piece, found: found.clone() };
                    let from = Some((at, nth));
                    let entry = Entry { rates, from, step: Some(step) };
                    keep(&mut self.fronts[next], entry, (self.front, self.slack));
                }
            }
        }
        reached
    }

    fn best(&self, total: u32, rate: Option<f64>, most: usize) -> Vec<Packing> {
        let mut all: Vec<(f64, u32, usize, usize)> = Vec::new();
        for (at, front) in self.fronts.iter().enumerate() {
            let used = total - free(&self.states[at]);
            for (nth, entry) in front.iter().enumerate() {
                let bound = entry.rates.0.min(entry.rates.1);
                if bound > 0.0 {
                    all.push((bound, used, at, nth));
                }
            }
        }
        let enough = |bound: f64| rate.is_some_and(|rate| bound >= rate);
        all.sort_by(|a, b| {
            let fewest = a.1.cmp(&b.1);
            let most = b.0.total_cmp(&a.0);
            match (enough(a.0), enough(b.0)) {
                (true, true) => fewest.then(most),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => most.then(fewest),
            }
            .then(a.2.cmp(&b.2))
        });
        all.truncate(most);
        all.into_iter().map(|(bound, _, at, nth)| self.traced(bound, at, nth)).collect()
    }

    fn traced(&self, bound: f64, at: usize, nth: usize) -> Packing {
        let mut steps = Vec::new();
        let mut entry = &self.fronts[at][nth];
        while let (Some((at, nth)), Some(step)) = (entry.from, &entry.step) {
            steps.push(step.clone());
            entry = &self.fronts[at][nth];
        }
        steps.reverse();
        Packing { bound, steps }
    }
}

/// Keeps an entry that no other beats by far in both rates; at the limit, those of the best
/// balance.
fn keep(front: &mut Vec<Entry>, entry: Entry, (most, slack): (usize, f64)) {
    let beats = |a: &Entry, b: &Entry| {
        let least = |rate: f64| rate * slack - 1e-9;
        a.rates.0 >= least(b.rates.0) && a.rates.1 >= least(b.rates.1)
    };
    let same = |a: &Entry, b: &Entry| {
        (a.rates.0 - b.rates.0).abs() < 1e-9 && (a.rates.1 - b.rates.1).abs() < 1e-9
    };
    if front.iter().any(|other| beats(other, &entry) || same(other, &entry)) {
        return;
    }
    // This state has not been expanded yet: that happens once all fuller states are done.
    front.retain(|other| !beats(&entry, other));
    front.push(entry);
    if front.len() > most {
        let worth = |at: &usize| front[*at].rates;
        let least = (0..front.len())
            .min_by(|a, b| {
                let (a, b) = (worth(a), worth(b));
                a.0.min(a.1).total_cmp(&b.0.min(b.1)).then((a.0 + a.1).total_cmp(&(b.0 + b.1)))
            })
            .expect("a full front is not empty");
        front.swap_remove(least);
    }
}

/// Every way of placing a shape: for each class, the free counts that its parts use.
fn placements(state: &PackState, shape: &Shape) -> Vec<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
    for (servers, parts) in state.iter().zip(shape) {
        let ways = ways(servers, parts);
        all = all
            .iter()
            .flat_map(|so_far| {
                ways.iter().map(move |way| so_far.iter().cloned().chain([way.clone()]).collect())
            })
            .collect();
    }
    all
}

/// The free counts that parts use in one class, each server once; equal counts are one way.
fn ways(servers: &[u8], parts: &[u8]) -> Vec<Vec<u8>> {
    let Some((part, rest)) = parts.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    let mut last = None;
    for (at, free) in servers.iter().enumerate() {
        if free < part || last == Some(*free) {
            continue;
        }
        last = Some(*free);
        let mut others = servers.to_vec();
        others.remove(at);
        for mut way in ways(&others, rest) {
            way.insert(0, *free);
            all.push(way);
        }
    }
    all
}

/// The state after a placement, sorted again.
fn after(state: &PackState, shape: &Shape, found: &[Vec<u8>]) -> PackState {
    let mut next = state.clone();
    for ((servers, parts), found) in next.iter_mut().zip(shape).zip(found) {
        for (part, free) in parts.iter().zip(found) {
            let at = servers.iter().position(|server| server == free);
            let at = at.expect("a placement takes servers that are there");
            // Marked, since another part of the shape goes to another server.
            servers[at] = (servers[at] - part) | TAKEN;
        }
        for free in servers.iter_mut() {
            *free &= !TAKEN;
        }
        servers.sort_unstable_by(|a, b| b.cmp(a));
    }
    next
}
