//! Upper bounds on the rates of a split's instances, and the instances above a given rate.
//!
//! A stage computes equally fast on all GPUs of the same kinds, and its all-reduce takes at least
//! the minimum latency and the minimum time of a byte of any such GPUs. Stages that use the same
//! number of each kind of server therefore form one *make*, and an instance serves no more than one
//! of these makes without hops between its stages: few enough to try all. If that bound is not low
//! enough, stages are dealt one by one as long as the makes of the remaining ones could still
//! compensate.

use std::collections::BTreeMap;

use meridian_plan::collective::Choice as Reduction;
use meridian_plan::{GpuId, Instance, Parallel, Phase, Rated, StageParts, Task};

use super::deal::Dealt;
use super::seats::Seats;
use super::{Choice, rated};

/// How far an instance may exceed its ceiling: if one stage is slower, the lengths of prompts may
/// matter less to a pipeline. No rated instance was above its ceiling.
const SLACK: f64 = 1.001;
/// Most ways of dealing the first stages of an instance before an exhaustive search becomes
/// infeasible.
const TRIES: usize = 20_000;
/// Stages of one class do the same work: those with one layer more, the others, and the last one.
const CLASSES: usize = 3;

/// Stages that use the same number of each kind of server.
struct Make {
    uses: Vec<u8>,
    /// Sample GPUs of theirs.
    members: Vec<GpuId>,
    /// The best in each class; `None` if there is none, or too little memory.
    best: [Option<StageParts>; CLASSES],
}

/// The stages of a split.
pub(super) struct Stages<'a> {
    task: &'a Task<'a>,
    seats: &'a Seats,
    parallel: Parallel,
    makes: Vec<Make>,
    /// Stages that were dealt, by class and by each seat's contribution.
    known: BTreeMap<(usize, Vec<u8>), Option<StageParts>>,
}

impl<'a> Stages<'a> {
    pub(super) fn new(task: &'a Task<'a>, seats: &'a Seats, parallel: Parallel) -> Stages<'a> {
        let mut stages =
            Stages { task, seats, parallel, makes: Vec::new(), known: BTreeMap::new() };
        seats.every(parallel.tp, 1, &mut |dealt| {
            stages.note(dealt);
            false
        });
        stages
    }

    /// Makes one stage known.
    fn note(&mut self, dealt: &Dealt) {
        let uses = self.seats.by_kind(&dealt.counts());
        let members = self.members(dealt).remove(0);
        let mut parts = [const { None }; CLASSES];
        for at in 0..self.parallel.pp {
            let part = &mut parts[self.class(at)];
            if part.is_none() {
                *part = StageParts::of(self.task, self.parallel, at, &members).ok().map(least);
            }
        }
        match self.makes.iter_mut().find(|make| make.uses == uses) {
            Some(make) => make.best.iter_mut().zip(parts).for_each(|(best, part)| meet(best, part)),
            None => self.makes.push(Make { uses, members, best: parts }),
        }
    }

    fn class(&self, at: u32) -> usize {
        let more = self.task.subject.shape.layers % self.parallel.pp;
        usize::from(at >= more) + usize::from(at + 1 == self.parallel.pp)
    }

    fn members(&self, dealt: &Dealt) -> Vec<Vec<GpuId>> {
        self.seats.members(dealt, &mut vec![0; self.seats.count()])
    }

    /// A ceiling for all instances that use the same number of each kind of server.
    pub(super) fn ceilings(&self) -> Vec<Choice> {
        let mut all: BTreeMap<(Phase, Vec<u8>), f64> = BTreeMap::new();
        let full = self.seats.by_kind(&self.seats.full());
        self.made(&mut Made::default(), &full, &mut |made, left| {
            let uses: Vec<u8> = full.iter().zip(left).map(|(full, left)| full - left).collect();
            for phase in [Phase::Prefill, Phase::Decode] {
                let known = all.entry((phase, uses.clone())).or_default();
                *known = known.max(self.rate(phase, made));
            }
        });
        let parallel = self.parallel;
        let choice = |((phase, uses), rate)| Choice { phase, parallel, dealt: None, uses, rate };
        all.into_iter().map(choice).filter(|one| one.rate > 0.0).collect()
    }

    /// The instances with a ceiling's uses that serve more than `floor`; `None` if there are too
    /// many ways to try.
    pub(super) fn above(&mut self, ceiling: &Choice, floor: f64) -> Option<Vec<Choice>> {
        let Parallel { tp, pp, .. } = self.parallel;
        let (task, seats, split) = (self.task, self.seats, (ceiling.phase, self.parallel));
        let (mut tried, mut above) = (0, Vec::new());
        seats.every(tp, pp, &mut |dealt| {
            tried += 1;
            let more = tried <= TRIES && self.at_most(dealt, ceiling) > floor;
            if more && dealt.stages() == pp as usize {
                let one = rated(task, seats, split, dealt);
                above.extend(one.filter(|one| one.rate > floor));
            }
            more
        });
        (tried <= TRIES).then_some(above)
    }

    /// The maximum rate of an instance with these first stages.
    fn at_most(&mut self, dealt: &Dealt, ceiling: &Choice) -> f64 {
        let used = self.seats.by_kind(&dealt.counts());
        if used.iter().zip(&ceiling.uses).any(|(used, uses)| used > uses) {
            return 0.0;
        }
        let mut made = Made::default();
        for (at, members) in self.members(dealt).into_iter().enumerate() {
            let column = dealt.0.iter().map(|seat| seat[at]).collect();
            let part = || StageParts::of(self.task, self.parallel, at as u32, &members).ok();
            let class = self.class(at as u32);
            let Some(part) = self.known.entry((class, column)).or_insert_with(part) else {
                return 0.0;
            };
            made.add(part, &members, 0);
        }
        let left: Vec<u8> = ceiling.uses.iter().zip(used).map(|(uses, used)| uses - used).collect();
        let mut most = 0.0_f64;
        self.made(&mut made, &left, &mut |made, left| {
            if left.iter().all(|left| *left == 0) {
                most = most.max(self.rate(ceiling.phase, made));
            }
        });
        most
    }

    /// Every way of continuing with makes for the remaining stages; within one class the order does
    /// not matter.
    fn made(&self, made: &mut Made, left: &[u8], give: &mut impl FnMut(&Made, &[u8])) {
        let at = made.parts.len() as u32;
        if at == self.parallel.pp {
            return give(made, left);
        }
        let class = self.class(at);
        let from = if at > 0 && self.class(at - 1) == class { made.last } else { 0 };
        for (nth, make) in self.makes.iter().enumerate().skip(from) {
            let fits = make.uses.iter().zip(left).all(|(uses, left)| uses <= left);
            let Some(part) = make.best[class].as_ref().filter(|_| fits) else { continue };
            let rest: Vec<u8> =
                left.iter().zip(&make.uses).map(|(left, uses)| left - uses).collect();
            let before = made.last;
            made.add(part, &make.members, nth);
            self.made(made, &rest, give);
            made.remove(before);
        }
    }

    /// The rate of stages without hops between them.
    fn rate(&self, phase: Phase, made: &Made) -> f64 {
        let instance = Instance { phase, parallel: self.parallel, stages: made.members.clone() };
        Rated::of_parts(self.task, instance, made.parts.clone()).map_or(0.0, |one| one.rate * SLACK)
    }
}

/// The first stages of an instance.
#[derive(Default)]
struct Made {
    parts: Vec<StageParts>,
    members: Vec<Vec<GpuId>>,
    /// The make of the last one.
    last: usize,
}

impl Made {
    fn add(&mut self, part: &StageParts, members: &[GpuId], make: usize) {
        self.parts.push(part.clone());
        self.members.push(members.to_vec());
        self.last = make;
    }

    fn remove(&mut self, last: usize) {
        self.parts.pop();
        self.members.pop();
        self.last = last;
    }
}

/// The minimum latency and time of a byte of a stage's ways, as if one had both.
fn least(mut part: StageParts) -> StageParts {
    if let Some(first) = part.choices.pop() {
        let both = part.choices.drain(..).fold(first, |all, one| least_of(&all, &one));
        part.choices.push(both);
    }
    part
}

fn least_of(a: &Reduction, b: &Reduction) -> Reduction {
    let (latency, per_byte) = (a.latency.min(b.latency), a.per_byte.min(b.per_byte));
    Reduction { latency, per_byte, ..a.clone() }
}

/// Keeps the better of two parts of one make.
fn meet(best: &mut Option<StageParts>, part: Option<StageParts>) {
    match (best.as_mut(), part) {
        (Some(best), Some(part)) => {
            let both =
                best.choices.iter().zip(&part.choices).map(|(a, b)| least_of(a, b)).collect();
            best.choices = both;
        }
        (None, part) => *best = part,
        (_, None) => {}
    }
}
