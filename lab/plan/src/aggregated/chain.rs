//! The tokens that wait at the start of each step, as a Markov chain.
//!
//! A step that starts with many waiting tokens takes longer, and more arrive during it. The state is
//! the number of prompt tokens that wait when a step starts, on a grid that grows geometrically. A
//! step takes as many as its budget allows; during it a Poisson number of prompts arrives, with a
//! total length whose mean and variance are those of so many prompts (lognormal). A number between
//! two points of the grid counts at both, such that the mean stays. The batch of decodes is constant
//! at its mean.
//!
//! In a pipeline no batch overtakes another: the batches of a round all end behind the longest of
//! them, so the time of a round is the expected maximum of as many steps as there are stages.

use super::steps::Steps;
use crate::task::Lengths;

/// Ratio of neighbouring points.
const RATIO: f64 = 1.25;
/// From this mean number of arrivals in a step on, their total is one lognormal number.
const MANY: f64 = 12.0;
/// Standard normal values and weights at which a total length is taken (Gauss and Hermite).
const NORMAL: [(f64, f64); 5] = [
    (-2.856_970, 0.011_257),
    (-1.355_626, 0.222_076),
    (0.0, 0.533_333),
    (1.355_626, 0.222_076),
    (2.856_970, 0.011_257),
];

/// A function of tokens, given at points: constant before the first one, linear between.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    at: Vec<f64>,
    value: Vec<f64>,
}

impl Curve {
    pub(super) fn of(&self, tokens: f64) -> f64 {
        let above = self.at.partition_point(|one| *one < tokens);
        match above {
            0 => self.value[0],
            _ if above == self.at.len() => self.value[above - 1],
            _ => {
                let share = (tokens - self.at[above - 1]) / (self.at[above] - self.at[above - 1]);
                self.value[above - 1] + share * (self.value[above] - self.value[above - 1])
            }
        }
    }
}

/// Steps at one rate and one number of decodes in each batch.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// Waiting tokens of each state, and those that remain after its step.
    pub(super) waiting: Vec<f64>,
    pub(super) left: Vec<f64>,
    /// Probability at the start of a step.
    pub(super) chance: Vec<f64>,
    /// Seconds until the next start.
    pub(super) gaps: Vec<f64>,
    /// Seconds from the start of a step with these prompt tokens to its end, behind the others of
    /// its round.
    pub(super) whole: Curve,
    /// Seconds that a request may wait for the next start, by state: from zero to this.
    pub(super) spans: Vec<f64>,
    /// Prompt tokens that fit into a step.
    pub(super) room: f64,
    /// Mean seconds from a token to the next one of the same request, and the variance of that.
    pub(super) cycle: f64,
    pub(super) variance: f64,
    /// Whether prompts arrive faster than steps take them.
    pub(super) overloaded: bool,
}

/// Total lengths of prompts that arrive in some time: weights and tokens.
pub(super) fn arrivals(
    prompt: Lengths,
    mean: f64,
    rate: f64,
    seconds: f64,
    mut each: impl FnMut(f64, f64),
) {
    let count = rate * seconds;
    let total = |count: f64, cv2: f64, weight: f64, each: &mut dyn FnMut(f64, f64)| {
        let sigma = libm::sqrt(libm::log(1.0 + cv2));
        for (normal, share) in NORMAL {
            let tokens = count * mean * libm::exp(sigma * (normal - sigma / 2.0));
            each(weight * share, tokens);
        }
    };
    let cv2 = prompt.cv * prompt.cv;
    if count > MANY {
        return total(count, (1.0 + cv2) / count, 1.0, &mut each);
    }
    let mut chance = libm::exp(-count);
    each(chance, 0.0);
    let most = count + 5.0 * libm::sqrt(count) + 3.0;
    let mut left = 1.0 - chance;
    for nth in 1..=most as u32 {
        let nth = f64::from(nth);
        chance *= count / nth;
        let weight = if nth + 1.0 > most { left } else { chance };
        left -= weight;
        total(nth, cv2 / nth, weight, &mut each);
    }
}

impl Chain {
    /// The chain at `rate` prompts a second, with `decodes` in each batch.
    pub(super) fn new(steps: &Steps, prompt: Lengths, rate: f64, decodes: f64) -> Chain {
        let room = steps.room(decodes);
        let first = steps.prompt * libm::exp(-2.0 * prompt.sigma()).max(0.05);
        let top = 4.0 * room + 8.0 * steps.prompt * (1.0 + prompt.cv);
        let mut waiting = vec![0.0];
        let count = (libm::log(top / first) / libm::log(RATIO)) as i32 + 1;
        waiting.extend((0..=count).map(|nth| first * libm::pow(RATIO, f64::from(nth))));
        let taken: Vec<f64> = waiting.iter().map(|one| steps.taken_of(*one, decodes)).collect();
        let left = waiting.iter().zip(&taken).map(|(all, taken)| (all - taken).max(0.0)).collect();
        let full = steps.time(decodes, room, steps.ranks);
        let mut chain = Chain {
            waiting,
            left,
            chance: Vec::new(),
            gaps: Vec::new(),
            whole: Curve { at: Vec::new(), value: Vec::new() },
            spans: Vec::new(),
            room,
            cycle: 0.0,
            variance: 0.0,
            overloaded: rate * steps.prompt * full / steps.lanes >= 0.98 * room,
        };
        // Prompts of a step are known only from those that arrive in one, so ranks take two rounds;
        // so do the batches of a pipeline, which wait for each other.
        let mut each = if steps.ranks > 1.0 { 0.0 } else { f64::INFINITY };
        let rounds = if steps.ranks > 1.0 || steps.lanes > 1.0 { 3 } else { 1 };
        for _ in 0..rounds {
            let time = |tokens: &f64| steps.time(decodes, *tokens, steps.prompts(*tokens, each));
            let times: Vec<f64> = taken.iter().map(time).collect();
            chain.settle(steps, (prompt, rate), (&taken, &times));
            if steps.ranks > 1.0 {
                each = rate * chain.cycle;
            }
        }
        chain
    }

    /// Finds the stationary chances for these times of steps.
    fn settle(
        &mut self,
        steps: &Steps,
        (prompt, rate): (Lengths, f64),
        (taken, times): (&[f64], &[f64]),
    ) {
        let all = self.rounds(times, steps.lanes);
        self.gaps = all.iter().map(|one| one / steps.lanes).collect();
        self.chance = stationary(self.transitions(prompt, steps.prompt, rate));
        let all = self.rounds(times, steps.lanes);
        self.gaps = all.iter().map(|one| one / steps.lanes).collect();
        self.cycle = self.mean_of(&all);
        let square = self.mean_of(&all.iter().map(|one| one * one).collect::<Vec<_>>());
        self.variance = (square - self.cycle * self.cycle).max(0.0);
        // Behind a long step the other batches end together, and start together again.
        let together = |round: f64| (1.0 - times[0] / round).max(0.0);
        let span =
            |round: &f64| round / steps.lanes * (1.0 + (steps.lanes - 1.0) * together(*round));
        self.spans = all.iter().map(span).collect();
        let mut points: Vec<(f64, f64)> = taken.iter().copied().zip(all).skip(1).collect();
        points.dedup_by(|a, b| a.0 <= b.0);
        let (at, value) = points.into_iter().unzip();
        self.whole = Curve { at, value };
    }

    /// The time of a round with a step of each state: the expected maximum of it and the steps of
    /// the other batches, which are longer the later the state.
    fn rounds(&self, times: &[f64], lanes: f64) -> Vec<f64> {
        if lanes <= 1.0 || self.chance.is_empty() {
            return times.to_vec();
        }
        let mut below = 0.0;
        let all: Vec<f64> = self
            .chance
            .iter()
            .map(|chance| {
                below += chance;
                libm::pow(below.min(1.0), lanes - 1.0)
            })
            .collect();
        let round = |nth: usize| {
            let longer = (nth + 1..times.len()).map(|at| times[at] * (all[at] - all[at - 1]));
            times[nth] * all[nth] + longer.sum::<f64>()
        };
        (0..times.len()).map(round).collect()
    }

    fn mean_of(&self, values: &[f64]) -> f64 {
        self.chance.iter().zip(values).map(|(chance, value)| chance * value).sum()
    }

    fn transitions(&self, prompt: Lengths, mean: f64, rate: f64) -> Vec<Vec<f64>> {
        let states = self.waiting.len();
        let row = |from: usize| {
            let mut row = vec![0.0; states];
            arrivals(prompt, mean, rate, self.gaps[from], |chance, tokens| {
                self.split(self.left[from] + tokens, |to, share| row[to] += chance * share);
            });
            row
        };
        (0..states).map(row).collect()
    }

    /// The states that stand for a number of waiting tokens, with their shares.
    fn split(&self, tokens: f64, mut put: impl FnMut(usize, f64)) {
        let last = self.waiting.len() - 1;
        let above = self.waiting.partition_point(|one| *one < tokens);
        if tokens <= 0.0 {
            put(0, 1.0);
        } else if above <= 1 {
            put(1, 1.0);
        } else if above > last {
            put(last, 1.0);
        } else {
            let (low, high) = (self.waiting[above - 1], self.waiting[above]);
            let share = (tokens - low) / (high - low);
            put(above - 1, 1.0 - share);
            put(above, share);
        }
    }
}

/// The stationary chances of a chain (the algorithm of Grassmann, Taksar and Heyman, which never
/// subtracts).
fn stationary(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rows.len();
    for last in (1..count).rev() {
        let out: f64 = rows[last][..last].iter().sum();
        let out = if out > 0.0 { out } else { f64::MIN_POSITIVE };
        let from = rows[last].clone();
        for row in &mut rows[..last] {
            row[last] /= out;
            let into = row[last];
            for (to, chance) in row[..last].iter_mut().zip(&from) {
                *to += into * chance;
            }
        }
    }
    let mut chances = vec![1.0];
    for at in 1..count {
        let chance =
            chances.iter().zip(&rows).map(|(chance, row): (&f64, _)| chance * row[at]).sum();
        chances.push(chance);
    }
    let sum: f64 = chances.iter().sum();
    chances.into_iter().map(|chance| chance / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The stationary chances of a chain of two states are in inverse proportion to the chances of
    // leaving them; a state that is never entered has none.
    #[test]
    fn chances_are_stationary() {
        let chances = stationary(vec![vec![0.9, 0.1], vec![0.3, 0.7]]);
        assert!((chances[0] - 0.75).abs() < 1e-12, "{chances:?}");
        let chances = stationary(vec![vec![1.0, 0.0], vec![1.0, 0.0]]);
        assert_eq!(chances, [1.0, 0.0]);
    }

    // The chances of all totals add up to 1, and their mean is that of the prompts that arrive.
    #[test]
    fn arrivals_have_their_mean() {
        let prompt = Lengths { mean: 500.0, cv: 0.8 };
        for count in [0.01, 0.7, 5.0, 11.9, 40.0] {
            let (mut all, mut mean) = (0.0, 0.0);
            arrivals(prompt, prompt.mean, count, 1.0, |chance, tokens| {
                all += chance;
                mean += chance * tokens;
            });
            assert!((all - 1.0).abs() < 1e-5, "{count}: {all}");
            assert!((mean / (500.0 * count) - 1.0).abs() < 0.01, "{count}: {mean}");
        }
    }
}
