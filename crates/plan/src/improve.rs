//! Improving: GPUs change places as long as the fleet serves more.
//!
//! Packing knows how many GPUs of which server an instance has, and not what meets on which link. Two
//! instances that trade a GPU, or one that takes a free one instead, may keep KV inside a server or
//! let two groups use different cards. Each move is judged in full; a round tries all of them, and
//! rounds end when none helped.

use crate::cell::{Cell, Ranked};
use crate::fleet::{Fleet, Verdict};
use crate::instance::{Parallel, Phase};
use crate::task::Task;
use crate::topology::{GpuId, LinkId};

/// Rounds at most; two or three are usual.
const ROUNDS: usize = 8;
/// A trade is kept from this gain on, so that rounding trades nothing.
const LEAST: f64 = 1.000_001;

/// What a fleet serves, and how crowded its links are: where two are equally full, freeing one of them
/// is a step, though nothing more is served before the other one is free, too.
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

/// An instance before it is arranged.
type Seat = (Phase, Parallel, Vec<GpuId>);

/// The best that trading places leads to.
pub(crate) fn improved(
    cell: &mut Cell<'_>,
    task: &Task<'_>,
    start: &Ranked,
    gpus: &[GpuId],
) -> Option<Ranked> {
    let mut seats: Vec<Seat> = start
        .fleet
        .all()
        .map(|rated| {
            (rated.instance.phase, rated.instance.parallel, rated.instance.gpus().collect())
        })
        .collect();
    let is_free = |gpu: &&GpuId| seats.iter().all(|seat| !seat.2.contains(gpu));
    let mut free: Vec<GpuId> = gpus.iter().filter(is_free).copied().collect();
    let mut best: Option<Ranked> = None;
    let mut score = Score::of(task, &start.verdict);
    for _ in 0..ROUNDS {
        let before = score;
        for (a, b) in trades(&seats, &free) {
            if !apart(task, &seats, &free, a, b) {
                continue;
            }
            trade(&mut seats, &mut free, a, b);
            let found = judged(cell, task, &seats);
            match found.map(|one| (Score::of(task, &one.verdict), one)) {
                Some((better, found)) if better.beats(&score) => {
                    score = better;
                    best = Some(found);
                }
                _ => trade(&mut seats, &mut free, a, b),
            }
        }
        if !score.beats(&before) {
            break;
        }
    }
    best
}

/// Every pair of places in different seats; free GPUs are the seat behind the last.
fn trades(seats: &[Seat], free: &[GpuId]) -> Vec<((usize, usize), (usize, usize))> {
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

fn at(seats: &[Seat], free: &[GpuId], (seat, nth): (usize, usize)) -> GpuId {
    if seat == seats.len() { free[nth] } else { seats[seat].2[nth] }
}

/// Whether a trade changes anything: GPUs of one server and card are alike.
fn apart(
    task: &Task<'_>,
    seats: &[Seat],
    free: &[GpuId],
    a: (usize, usize),
    b: (usize, usize),
) -> bool {
    let place = |gpu: GpuId| {
        let home = task.topology.home(gpu);
        let numa = home.numa[(gpu.0 - home.first) as usize];
        (task.topology.server_of(gpu), task.topology.own_card(gpu), numa)
    };
    place(at(seats, free, a)) != place(at(seats, free, b))
}

fn trade(seats: &mut [Seat], free: &mut [GpuId], a: (usize, usize), b: (usize, usize)) {
    let (one, other) = (at(seats, free, a), at(seats, free, b));
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
