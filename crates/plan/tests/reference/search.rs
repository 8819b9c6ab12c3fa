//! Every set of instances, on every set of GPUs.

use std::collections::BTreeMap;
use std::rc::Rc;

use meridian_plan::{Fleet, GpuId, Instance, Phase, Rated, Task};

use super::Choice;
use super::deal::Dealt;
use super::seats::Seats;

/// Nodes beyond which trying all is not feasible.
const NODES: usize = 150_000;

pub(super) struct Search<'a> {
    task: &'a Task<'a>,
    seats: &'a Seats,
    /// Those that serve most for their GPUs first.
    choices: Vec<&'a Choice>,
    bounds: Bounds,
    /// Instances that were rated, by their GPUs.
    rated: BTreeMap<(usize, Vec<Vec<GpuId>>), Rc<Rated>>,
    best: f64,
    nodes: usize,
}

/// A set of instances on its way.
#[derive(Clone)]
struct Partial {
    /// What each seat has left.
    left: Vec<u8>,
    /// What each seat gave so far, stage by stage.
    history: Vec<Vec<u8>>,
    /// Prefill's and decode's rates.
    rates: (f64, f64),
    chosen: Vec<(usize, Dealt)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        task: &'a Task<'a>,
        seats: &'a Seats,
        choices: &'a [Choice],
        floor: f64,
    ) -> Search<'a> {
        let mut choices: Vec<&Choice> = choices.iter().collect();
        let per_gpu = |one: &Choice| one.rate / f64::from(one.parallel.gpus());
        choices.sort_by(|a, b| per_gpu(b).total_cmp(&per_gpu(a)));
        let bounds = Bounds::new(&seats.by_kind(&seats.full()), &choices);
        Search { task, seats, choices, bounds, rated: BTreeMap::new(), best: floor, nodes: 0 }
    }

    pub(super) fn run(mut self) -> Option<f64> {
        let history = vec![Vec::new(); self.seats.count()];
        let empty =
            Partial { left: self.seats.full(), history, rates: (0.0, 0.0), chosen: Vec::new() };
        self.from(0, &empty);
        (self.nodes < NODES).then_some(self.best)
    }

    /// Every set that goes on with choices from `at` on.
    fn from(&mut self, at: usize, partial: &Partial) {
        self.nodes += 1;
        if partial.rates.0.min(partial.rates.1) > self.best {
            self.judge(&partial.chosen);
        }
        let left = self.seats.by_kind(&partial.left);
        for next in at..self.choices.len() {
            let one = self.choices[next];
            let rates = match one.phase {
                Phase::Prefill => (partial.rates.0 + one.rate, partial.rates.1),
                Phase::Decode => (partial.rates.0, partial.rates.1 + one.rate),
            };
            let fits = one.uses.iter().zip(&left).all(|(uses, left)| uses <= left);
            let rest = || left.iter().zip(&one.uses).map(|(left, uses)| left - uses);
            if !fits || self.bounds.of(rest(), rates) <= self.best * 1.000_001 {
                continue;
            }
            let Some(dealt) = &one.dealt else {
                self.nodes = NODES;
                return;
            };
            for dealt in self.seats.placements(dealt, &partial.history, &partial.left) {
                if self.nodes >= NODES {
                    return;
                }
                let mut more = Partial { rates, ..partial.clone() };
                for (seat, column) in dealt.0.iter().enumerate() {
                    more.left[seat] -= column.iter().sum::<u8>();
                    more.history[seat].extend(column);
                }
                more.chosen.push((next, dealt));
                self.from(next, &more);
            }
        }
    }

    fn judge(&mut self, chosen: &[(usize, Dealt)]) {
        let mut taken = vec![0; self.seats.count()];
        let mut fleet = Fleet::default();
        for (at, dealt) in chosen {
            let Choice { phase, parallel, .. } = *self.choices[*at];
            let stages = self.seats.members(dealt, &mut taken);
            let rated = self.rated.entry((*at, stages.clone())).or_insert_with(|| {
                let instance = Instance { phase, parallel, stages };
                Rc::new(Rated::new(self.task, instance).expect("its like was rated before"))
            });
            match phase {
                Phase::Prefill => fleet.prefill.push(rated.clone()),
                Phase::Decode => fleet.decode.push(rated.clone()),
            }
        }
        if let Some(verdict) = fleet.judged(self.task) {
            self.best = self.best.max(verdict.goodput);
        }
    }
}

/// What free GPUs could add if only their number on each kind of server counted.
struct Bounds {
    /// How many steps in `fronts` a GPU of each kind is.
    steps: Vec<usize>,
    /// For each number of free GPUs the rates of prefill and decode that no others beat.
    fronts: Vec<Vec<(f64, f64)>>,
}

impl Bounds {
    fn new(full: &[u8], choices: &[&Choice]) -> Bounds {
        let mut steps = Vec::new();
        let mut states = 1;
        for count in full {
            steps.push(states);
            states *= usize::from(*count) + 1;
        }
        let mut best: BTreeMap<(Phase, Vec<u8>), f64> = BTreeMap::new();
        for one in choices {
            let known = best.entry((one.phase, one.uses.clone())).or_default();
            *known = known.max(one.rate);
        }
        let mut fronts: Vec<Vec<(f64, f64)>> = Vec::with_capacity(states);
        for state in 0..states {
            let free: Vec<usize> = full
                .iter()
                .zip(&steps)
                .map(|(full, step)| state / step % (usize::from(*full) + 1))
                .collect();
            let mut all = vec![(0.0, 0.0)];
            for ((phase, uses), rate) in &best {
                if uses.iter().zip(&free).any(|(uses, free)| usize::from(*uses) > *free) {
                    continue;
                }
                let before: usize =
                    uses.iter().zip(&steps).map(|(uses, step)| usize::from(*uses) * step).sum();
                let (p, d) = if *phase == Phase::Prefill { (*rate, 0.0) } else { (0.0, *rate) };
                all.extend(fronts[state - before].iter().map(|(a, b)| (a + p, b + d)));
            }
            fronts.push(front(all));
        }
        Bounds { steps, fronts }
    }

    fn of(&self, free: impl Iterator<Item = u8>, (p, d): (f64, f64)) -> f64 {
        let state: usize = free.zip(&self.steps).map(|(free, step)| usize::from(free) * step).sum();
        self.fronts[state].iter().map(|(a, b)| (p + a).min(d + b)).fold(0.0, f64::max)
    }
}

/// Those that no other beats in both.
fn front(mut all: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let mut most = -1.0;
    all.retain(|(_, d)| {
        let kept = *d > most;
        most = most.max(*d);
        kept
    });
    all
}
