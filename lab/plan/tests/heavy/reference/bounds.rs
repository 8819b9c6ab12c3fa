//! Upper bounds on the rates that free GPUs could add, if only their number on each kind of server
//! counted.

use std::collections::BTreeMap;

use meridian_plan::Phase;

use super::Choice;

pub(super) struct Bounds {
    /// How many steps in `fronts` a GPU of each kind is.
    steps: Vec<usize>,
    /// For each number of free GPUs the Pareto-optimal rates of prefill and decode.
    fronts: Vec<Vec<(f64, f64)>>,
}

impl Bounds {
    pub(super) fn new(full: &[u8], choices: &[Choice]) -> Bounds {
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

    fn front(&self, free: &[u8]) -> &[(f64, f64)] {
        let step = |(free, step): (&u8, &usize)| usize::from(*free) * step;
        &self.fronts[free.iter().zip(&self.steps).map(step).sum::<usize>()]
    }

    /// The maximum goodput if free GPUs join instances with the given rates.
    pub(super) fn of(&self, free: &[u8], (p, d): (f64, f64)) -> f64 {
        self.front(free).iter().map(|(a, b)| (p + a).min(d + b)).fold(0.0, f64::max)
    }

    /// The most of one phase.
    pub(super) fn most(&self, free: &[u8], phase: Phase) -> f64 {
        let rate = |(p, d): &(f64, f64)| if phase == Phase::Prefill { *p } else { *d };
        self.front(free).iter().map(rate).fold(0.0, f64::max)
    }

    /// The rate that is needed in one phase so that both exceed `floor`.
    pub(super) fn lacks(&self, free: &[u8], phase: Phase, floor: f64) -> Option<f64> {
        let both = self.front(free).iter().map(|(p, d)| match phase {
            Phase::Prefill => (*p, *d),
            Phase::Decode => (*d, *p),
        });
        both.filter(|(_, other)| *other > floor).map(|(same, _)| floor - same).reduce(f64::min)
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
