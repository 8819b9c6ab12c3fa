//! An exhaustive search over all plans.
//!
//! Plans that differ only in the choice among equal GPUs or servers are tried once. To generate
//! each exactly once, GPUs are dealt stage by stage, and of equal seats with the same deal so far
//! the former gets no less (orderly generation; Read 1978, Faradzev 1978).

mod bounds;
mod ceiling;
mod deal;
mod flows;
mod place;
mod places;
mod search;
mod seats;

use std::rc::Rc;

use meridian_plan::{Fleet, Instance, Parallel, Phase, Rated, Task};

use ceiling::Stages;
use deal::Dealt;
use search::Search;
use seats::Seats;

/// An instance, up to the choice among equal seats.
#[derive(Clone)]
struct Choice {
    phase: Phase,
    parallel: Parallel,
    /// Each seat's contribution to each stage; `None` if only the rate's bound is known.
    dealt: Option<Dealt>,
    /// Its use of each kind of server.
    uses: Vec<u8>,
    /// Its rate, or a bound on it.
    rate: f64,
}

impl Choice {
    fn per_gpu(&self) -> f64 {
        self.rate / f64::from(self.parallel.gpus())
    }
}

/// Instances placed in the search for the best plan, and then for one above `enough`.
const TRIES: [usize; 2] = [30_000, 10_000_000];
/// Ways of dealing the stages of a split up to which all are tried.
const WAYS: usize = 4_000;

/// The goodput of the best of all plans above `least`. If an exhaustive search is infeasible, the
/// best above `enough`, or `enough` if there is none; `None` if neither is feasible. Instances of a
/// split with too many ways are rated only if a plan above `enough` could include them. If too many
/// could, they are not rated, and no set with them may then remain to be tried.
pub(crate) fn best(task: &Task<'_>, least: f64, enough: f64) -> Option<f64> {
    let seats = Seats::of(task.topology);
    let (mut choices, mut open) = (Vec::new(), Vec::new());
    for parallel in splits(task) {
        match exact(task, &seats, parallel) {
            Some(all) => choices.extend(all),
            None => open.push(Stages::new(task, &seats, parallel)),
        }
    }
    let ceilings: Vec<Vec<Choice>> = open.iter().map(Stages::ceilings).collect();
    let all = [choices.clone(), ceilings.concat()].concat();
    if let Some(best) = Search::new(task, &seats, &all, least).run(TRIES[0]) {
        return Some(best);
    }
    let search = Search::new(task, &seats, &all, enough);
    choices.retain(|one| search.lacks(one).is_some_and(|floor| one.rate > floor));
    for (stages, ceilings) in open.iter_mut().zip(&ceilings) {
        for one in ceilings {
            if let Some(floor) = search.lacks(one).filter(|floor| one.rate > *floor) {
                match stages.above(one, floor) {
                    Some(above) => choices.extend(above),
                    None => choices.push(one.clone()),
                }
            }
        }
    }
    Search::new(task, &seats, &choices, enough).run(TRIES[1])
}

/// Instances above the ceiling of those that use the same number of GPUs of each kind of server.
pub(crate) fn above_ceiling(task: &Task<'_>) -> Vec<(Phase, Parallel, f64)> {
    let seats = Seats::of(task.topology);
    let mut above = Vec::new();
    for parallel in splits(task) {
        let Some(all) = exact(task, &seats, parallel) else { continue };
        let ceilings = Stages::new(task, &seats, parallel).ceilings();
        let low = |one: &Choice| {
            let like = |other: &&Choice| (other.phase, &other.uses) == (one.phase, &one.uses);
            ceilings.iter().find(like).is_none_or(|ceiling| one.rate > ceiling.rate)
        };
        let found = all.into_iter().filter(low).map(|one| (one.phase, parallel, one.rate));
        above.extend(found);
    }
    above
}

/// The maximum that links carry to a fleet's decode instances with any prefill instances of the
/// same splits; `None` if there is no bound.
pub(crate) fn carried_at_most(task: &Task<'_>, fleet: &Fleet) -> Option<f64> {
    let choice = |one: &Rc<Rated>| {
        let Instance { phase, parallel, .. } = one.instance;
        Choice { phase, parallel, dealt: None, uses: Vec::new(), rate: one.rate }
    };
    let all: Vec<Choice> = fleet.prefill.iter().map(choice).collect();
    let each = flows::most_of_gpu(task, &all.iter().collect::<Vec<_>>())?;
    Some(flows::carried(task, &fleet.decode, each))
}

/// Every split that a model and a topology allow.
fn splits(task: &Task<'_>) -> Vec<Parallel> {
    let model = &task.subject.shape;
    let mut all = Vec::new();
    for tp in [1_u32, 2, 4, 8, 16] {
        for pp in [1_u32, 2, 3, 4, 6, 8] {
            if model.heads.is_multiple_of(tp) {
                all.push(Parallel { tp, pp, ep: false });
            }
        }
        if tp > 1 && model.experts.is_some_and(|one| one.count.is_multiple_of(tp)) {
            all.push(Parallel { tp, pp: 1, ep: true });
        }
    }
    all.retain(|one| one.gpus() <= task.topology.gpus());
    all
}

/// Every instance of a split; `None` if there are too many.
fn exact(task: &Task<'_>, seats: &Seats, parallel: Parallel) -> Option<Vec<Choice>> {
    let Parallel { tp, pp, .. } = parallel;
    let mut count = 0;
    seats.every(tp, pp, &mut |dealt| {
        count += usize::from(dealt.stages() == pp as usize);
        count <= WAYS
    });
    if count > WAYS {
        return None;
    }
    let mut all = Vec::new();
    seats.every(tp, pp, &mut |dealt| {
        if dealt.stages() == pp as usize {
            let phases = [Phase::Prefill, Phase::Decode].into_iter();
            all.extend(phases.filter_map(|phase| rated(task, seats, (phase, parallel), dealt)));
        }
        true
    });
    Some(all)
}

/// The instance with this deal; `None` if it serves nothing.
fn rated(
    task: &Task<'_>,
    seats: &Seats,
    (phase, parallel): (Phase, Parallel),
    dealt: &Dealt,
) -> Option<Choice> {
    let stages = seats.members(dealt, &mut vec![0; seats.count()]);
    let Rated { rate, .. } = Rated::new(task, Instance { phase, parallel, stages }).ok()?;
    let uses = seats.by_kind(&dealt.counts());
    (rate > 0.0).then(|| Choice { phase, parallel, dealt: Some(dealt.clone()), uses, rate })
}
