//! Every plan, tried.
//!
//! Plans that only differ in which of several alike GPUs or servers they have are tried once. So that
//! each is made once and none is left out, GPUs are dealt stage by stage, and of seats that are alike
//! and were dealt the same so far the former gets no less (orderly generation; Read 1978, Faradzev 1978).

mod deal;
mod place;
mod search;
mod seats;

use std::collections::BTreeMap;

use meridian_plan::{Instance, LinkId, Parallel, Phase, Rated, Task};

use deal::Dealt;
use search::Search;
use seats::Seats;

/// An instance, but for which of several alike seats it has.
#[derive(Clone)]
struct Choice {
    phase: Phase,
    parallel: Parallel,
    /// What each seat gives to each stage; `None` where only the rate's bound is known.
    dealt: Option<Dealt>,
    /// What it takes of each kind of server.
    uses: Vec<u8>,
    /// What it serves, or a bound of that.
    rate: f64,
}

/// The goodput of the best of all plans, or of all above `enough` where only these can be tried (then
/// `enough` if there are none); `None` where there are too many. Of the instances of a split that can
/// be dealt out in more than so many `ways` only a bound of what they serve is looked at.
pub(crate) fn best(task: &Task<'_>, enough: f64, ways: usize) -> Option<f64> {
    let seats = Seats::of(task.topology);
    let of =
        |parallel| exact(task, &seats, parallel, ways).or_else(|| bounds(task, parallel, ways));
    let choices: Option<Vec<Vec<Choice>>> = splits(task).into_iter().map(of).collect();
    let choices = choices?.concat();
    let above = |floor| Search::new(task, &seats, &choices, floor).run();
    above(0.0).or_else(|| above(enough))
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

/// The best instance of a split on each set of GPUs; `None` where there are too many.
fn exact(task: &Task<'_>, seats: &Seats, parallel: Parallel, ways: usize) -> Option<Vec<Choice>> {
    let mut count = 0;
    let mut each = |_: &Dealt| {
        count += 1;
        count <= ways
    };
    if !seats.every(parallel.tp, parallel.pp, &mut each) {
        return None;
    }
    let mut rated = Best::default();
    seats.every(parallel.tp, parallel.pp, &mut |dealt| {
        rated.note(task, seats, parallel, dealt);
        true
    });
    Some(rated.0.into_values().collect())
}

/// How much faster links are of which only a bound is asked, and by how much of it NUMA nodes could
/// still matter there.
const FASTER: f64 = 1e4;
const NODES: f64 = 1.001;

/// What instances of a split serve at most on each kind of server: as if no link were ever full.
fn bounds(task: &Task<'_>, parallel: Parallel, ways: usize) -> Option<Vec<Choice>> {
    let links = (0..task.topology.link_count()).map(LinkId);
    let topology = links.fold(task.topology.clone(), |all, link| all.faster(link, FASTER));
    let task = Task { topology: &topology, ..task.clone() };
    let seats = Seats::of_servers(&topology);
    let bound = |one: Choice| Choice { dealt: None, rate: one.rate * NODES, ..one };
    Some(exact(&task, &seats, parallel, ways)?.into_iter().map(bound).collect())
}

/// The best for the same GPUs.
#[derive(Default)]
struct Best(BTreeMap<(Phase, Vec<u8>), Choice>);

impl Best {
    /// Rates one way of dealing out stages.
    fn note(&mut self, task: &Task<'_>, seats: &Seats, parallel: Parallel, dealt: &Dealt) {
        let stages = seats.members(dealt, &mut vec![0; seats.count()]);
        let counts = seats.canonical(&dealt.counts());
        for phase in [Phase::Prefill, Phase::Decode] {
            let instance = Instance { phase, parallel, stages: stages.clone() };
            let Ok(Rated { rate, .. }) = Rated::new(task, instance) else { return };
            let key = (phase, counts.clone());
            if rate > self.0.get(&key).map_or(0.0, |one| one.rate) {
                let uses = seats.by_kind(&counts);
                self.0.insert(
                    key,
                    Choice { phase, parallel, dealt: Some(dealt.clone()), uses, rate },
                );
            }
        }
    }
}
