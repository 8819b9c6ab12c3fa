//! Local search: exchanges GPUs as long as the fleet's goodput grows.
//!
//! Packing sets how many GPUs of each server an instance has, but ignores contention on links. If
//! two instances trade a GPU, or one takes a free GPU instead, KV may stay inside a server, or two
//! groups may use different cards. Each move is judged in full. A round tries all of them, and
//! rounds end when none helps. If a link is then the bottleneck, GPUs are recut into other
//! instances (`recut.rs`), and the rounds start again.

use crate::cell::{Cell, Ranked};
use crate::fleet::{Fleet, Limit, Verdict};
use crate::instance::Phase;
use crate::recut::{Seat, Seating, recuts};
use crate::task::Task;
use crate::topology::{GpuId, LinkId};

/// Rounds at most; two or three are usual.
const ROUNDS: usize = 8;
/// Minimum gain of a trade, so that rounding errors trade nothing.
const LEAST: f64 = 1.000_001;

/// A fleet's goodput, and the load of its links: if two are equally full, freeing one is progress,
/// though goodput grows only when the other is free too.
#[derive(Clone, Copy)]
struct Score {
    goodput: f64,
    crowding: f64,
}

impl Score {
    fn of(task: &Task<'_>, verdict: &Verdict) -> Score {
        let seconds = |(link, bytes): (LinkId, f64)| bytes / task.topology.usable(link);
        let crowding = verdict.loads.iter().map(|one| seconds(one) * seconds(one)).sum();
        Score { goodput: verdict.goodput, crowding }
    }

    fn beats(&self, other: &Score) -> bool {
        self.goodput > other.goodput * LEAST
            || self.goodput * LEAST > other.goodput && self.crowding * LEAST < other.crowding
    }
}

/// The best result of alternately trading and recutting.
pub(crate) fn improved(
    cell: &mut Cell<'_>,
    task: &Task<'_>,
    start: &Ranked,
    gpus: &[GpuId],
) -> Option<Ranked> {
    let seats: Vec<Seat> = start
        .fleet
        .all()
        .map(|rated| {
            (rated.instance.phase, rated.instance.parallel, rated.instance.gpus().collect())
        })
        .collect();
    let is_free = |gpu: &&GpuId| seats.iter().all(|seat| !seat.2.contains(gpu));
    let free: Vec<GpuId> = gpus.iter().filter(is_free).copied().collect();
    let (score, best) = (Score::of(task, &start.verdict), start.clone());
    let mut search = Search { cell, task, seating: (seats, free), score, best };
    let mut helped = search.traded();
    for _ in 0..ROUNDS {
        if !search.recut() {
            break;
        }
        helped = true;
        search.traded();
    }
    helped.then_some(search.best)
}

/// A plan that improves step by step, and the seating being tried.
struct Search<'a, 'b> {
    cell: &'a mut Cell<'b>,
    task: &'a Task<'a>,
    seating: Seating,
    score: Score,
    best: Ranked,
}

impl Search<'_, '_> {
    /// Trades GPUs until no trade helps; returns whether any did.
    fn traded(&mut self) -> bool {
        let mut helped = false;
        for _ in 0..ROUNDS {
            let before = self.score;
            for (a, b) in trades(&self.seating) {
                if !apart(self.task, &self.seating, a, b) {
                    continue;
                }
                trade(&mut self.seating, a, b);
                if self.is_better() {
                    helped = true;
                } else {
                    trade(&mut self.seating, a, b);
                }
            }
            if !self.score.beats(&before) {
                break;
            }
        }
        helped
    }

    /// If a link is the bottleneck, applies the recut that helps most; returns whether one does.
    fn recut(&mut self) -> bool {
        if !matches!(self.best.verdict.limit, Limit::Link(_)) {
            return false;
        }
        let mut helped = false;
        for seating in recuts(self.task, &self.seating) {
            let before = core::mem::replace(&mut self.seating, seating);
            if self.is_better() {
                helped = true;
            } else {
                self.seating = before;
            }
        }
        helped
    }

    /// Whether the seating being tried beats the best so far; it then becomes the best.
    fn is_better(&mut self) -> bool {
        let Some(found) = judged(self.cell, self.task, &self.seating.0) else { return false };
        let score = Score::of(self.task, &found.verdict);
        let better = score.beats(&self.score);
        if better {
            (self.score, self.best) = (score, found);
        }
        better
    }
}

/// Every pair of GPUs in different seats; free GPUs are the seat after the last.
fn trades((seats, free): &Seating) -> Vec<((usize, usize), (usize, usize))> {
    let len = |seat: usize| seats.get(seat).map_or(free.len(), |seat| seat.2.len());
    let mut all = Vec::new();
    for a in 0..seats.len() {
        for b in a + 1..=seats.len() {
            for at in 0..len(a) {
                all.extend((0..len(b)).map(|to| ((a, at), (b, to))));
            }
        }
    }
    all
}

fn at((seats, free): &Seating, (seat, nth): (usize, usize)) -> GpuId {
    if seat == seats.len() { free[nth] } else { seats[seat].2[nth] }
}

/// Whether a trade changes anything: GPUs of one server and card are equal.
fn apart(task: &Task<'_>, seating: &Seating, a: (usize, usize), b: (usize, usize)) -> bool {
    let place = |gpu: GpuId| {
        let home = task.topology.home(gpu);
        let numa = home.numa[(gpu.0 - home.first) as usize];
        (task.topology.server_of(gpu), task.topology.own_card(gpu), numa)
    };
    place(at(seating, a)) != place(at(seating, b))
}

fn trade(seating: &mut Seating, a: (usize, usize), b: (usize, usize)) {
    let (one, other) = (at(seating, a), at(seating, b));
    let (seats, free) = seating;
    seats[a.0].2[a.1] = other;
    match seats.get_mut(b.0) {
        Some(seat) => seat.2[b.1] = one,
        None => free[b.1] = one,
    }
}

fn judged(cell: &mut Cell<'_>, task: &Task<'_>, seats: &[Seat]) -> Option<Ranked> {
    let mut fleet = Fleet::default();
    for (phase, parallel, gpus) in seats {
        let mut gpus = gpus.clone();
        gpus.sort_unstable();
        let rated = cell.rated(*phase, *parallel, gpus)?;
        match phase {
            Phase::Prefill => fleet.prefill.push(rated),
            Phase::Decode => fleet.decode.push(rated),
        }
    }
    let verdict = fleet.judged(task)?;
    Some(Ranked { fleet, verdict })
}
