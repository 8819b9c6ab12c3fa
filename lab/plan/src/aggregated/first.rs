//! The TTFT in an engine that prefills and decodes.
//!
//! A request waits for the rest of the current step, at any point of which it may arrive, then for
//! the steps of the tokens that wait before it, and for its own. Prompts that arrive later may still
//! join its last step. A request that finds the engine idle has steps of its own.

use super::chain::{Chain, arrivals};
use super::steps::Steps;
use crate::spread::Spread;
use crate::task::Lengths;

/// Points of the current step at which a request may arrive.
const PARTS: u32 = 3;
/// Chances below this one are left out.
const RARE: f64 = 1e-7;
/// Bins of a factor of e, and the first one's logarithm in seconds.
const FINE: f64 = 64.0;
const FIRST: f64 = -10.0;
const BINS: usize = 1600;

/// A distribution of times, in bins.
#[derive(Clone, Debug)]
pub(super) struct Times {
    bins: Vec<f64>,
    all: f64,
    sum: f64,
}

impl Default for Times {
    fn default() -> Times {
        Times { bins: vec![0.0; BINS], all: 0.0, sum: 0.0 }
    }
}

impl Times {
    fn add(&mut self, weight: f64, seconds: f64) {
        let bin = ((libm::log(seconds.max(1e-9)) - FIRST) * FINE).clamp(0.0, BINS as f64 - 1.0);
        self.bins[bin as usize] += weight;
        self.all += weight;
        self.sum += weight * seconds;
    }

    /// Adds `weight` times another distribution.
    pub(super) fn merge(&mut self, other: &Times, weight: f64) {
        let scale = weight / other.all;
        self.bins.iter_mut().zip(&other.bins).for_each(|(one, more)| *one += scale * more);
        self.all += weight;
        self.sum += scale * other.sum;
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.all
    }

    /// The time below which a share of `quantile` stays.
    pub(super) fn within(&self, quantile: f64) -> f64 {
        let mut left = quantile * self.all;
        for (nth, weight) in self.bins.iter().enumerate() {
            if *weight >= left && *weight > 0.0 {
                return libm::exp(FIRST + (nth as f64 + left / weight) / FINE);
            }
            left -= weight;
        }
        f64::INFINITY
    }

    /// The share above a time.
    pub(super) fn later(&self, seconds: f64) -> f64 {
        let place = ((libm::log(seconds) - FIRST) * FINE).clamp(0.0, BINS as f64 - 1.0);
        let bin = place as usize;
        let below: f64 = self.bins[..bin].iter().sum();
        1.0 - (below + (place - bin as f64) * self.bins[bin]) / self.all
    }
}

/// The TTFT of requests that meet this chain; a share of `idle` finds the engine idle.
pub(super) fn first_tokens(
    steps: &Steps,
    prompt: Lengths,
    longest: f64,
    rate: f64,
    (chain, idle): (&Chain, f64),
) -> Times {
    let mut times = Times::default();
    let lengths = Spread::new(prompt, longest, |tokens| tokens);
    let own: Vec<(f64, f64)> = lengths.weighted().filter(|(weight, _)| *weight > RARE).collect();
    let alone = Alone::new(steps);
    for (weight, tokens) in &own {
        times.add(idle * weight, alone.seconds(*tokens));
    }
    let met: f64 = chain.chance.iter().zip(&chain.gaps).map(|(chance, gap)| chance * gap).sum();
    for (state, chance) in chain.chance.iter().enumerate() {
        let span = chain.spans[state];
        let share = (1.0 - idle) * chance * chain.gaps[state] / met / f64::from(PARTS);
        if share < RARE {
            continue;
        }
        for part in 0..PARTS {
            let passed = span * (f64::from(part) + 0.5) / f64::from(PARTS);
            arrivals(prompt, steps.prompt, rate, passed, |chance, tokens| {
                if share * chance < RARE {
                    return;
                }
                let ahead = chain.left[state] + tokens;
                for (weight, tokens) in &own {
                    let weight = share * chance * weight;
                    Waiting { steps, chain, rate, rest: span - passed, ahead, own: *tokens }
                        .each(|chance, seconds| times.add(weight * chance, seconds));
                }
            });
        }
    }
    times
}

/// An engine with nothing else to do.
struct Alone<'a> {
    steps: &'a Steps,
    room: f64,
    full: f64,
}

impl<'a> Alone<'a> {
    fn new(steps: &'a Steps) -> Alone<'a> {
        let room = steps.budget;
        Alone { steps, room, full: steps.time(0.0, room, 1.0) }
    }

    fn seconds(&self, tokens: f64) -> f64 {
        let before = (libm::ceil(tokens / self.room) - 1.0).max(0.0);
        before * self.full + self.steps.time(0.0, tokens - before * self.room, 1.0)
    }
}

/// A request that waits.
struct Waiting<'a> {
    steps: &'a Steps,
    chain: &'a Chain,
    rate: f64,
    /// Seconds until the next step.
    rest: f64,
    /// Tokens that wait before it, and its own.
    ahead: f64,
    own: f64,
}

impl Waiting<'_> {
    /// Its times, with chances: with and without later prompts in its last step.
    fn each(&self, mut put: impl FnMut(f64, f64)) {
        let Waiting { steps, chain, ahead, own, .. } = *self;
        let room = chain.room;
        let full = chain.whole.of(room);
        // Steps that take only tokens before it; in a pipeline other batches take most of those.
        let before = libm::floor(ahead / room);
        let mut waited = self.rest + before * full / steps.lanes;
        let mut tokens = ahead - before * room + own;
        // Ranks compute its prompt in steps of their own budget.
        let most =
            if steps.ranks > 1.0 { (own / steps.budget).max(tokens / room) } else { tokens / room };
        let more = (libm::ceil(most) - 1.0).max(0.0);
        waited += more * full;
        tokens = (tokens - more * room).max(own - more * steps.budget).max(1.0);
        let joined = self.rate * waited;
        let none = libm::exp(-joined);
        put(none, waited + chain.whole.of(tokens));
        if none < 1.0 {
            let others = joined / (1.0 - none) * steps.prompt;
            put(1.0 - none, waited + chain.whole.of((tokens + others).min(room)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shares and quantiles of a distribution are inverse to each other, and two distributions merge
    // by weight.
    #[test]
    fn times_have_quantiles() {
        let mut times = Times::default();
        (1..=1000).for_each(|nth| times.add(0.1, f64::from(nth) / 1000.0));
        assert!((times.mean() - 0.5005).abs() < 1e-9);
        assert!((times.within(0.9) / 0.9 - 1.0).abs() < 0.01, "{}", times.within(0.9));
        assert!((times.later(0.9) - 0.1).abs() < 0.01, "{}", times.later(0.9));
        let mut slow = Times::default();
        slow.add(1.0, 10.0);
        let mut both = Times::default();
        both.merge(&times, 3.0);
        both.merge(&slow, 1.0);
        assert!((both.mean() - (3.0 * 0.5005 + 10.0) / 4.0).abs() < 1e-9);
        assert!((both.later(5.0) - 0.25).abs() < 1e-9);
    }
}
