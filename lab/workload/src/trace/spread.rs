//! Spreads arrivals that a trace rounded to a grid.
//!
//! Mooncake's arrivals are on a grid of three seconds: replayed unchanged, each step is a burst
//! that did not exist. The requests of one step are spread uniformly over it, in the order of the
//! file, so that a later turn stays behind the one it follows.

use std::collections::VecDeque;
use std::time::Duration;

use meridian_base::{Rng, mix};

use super::{TraceError, TraceRequest};

/// Most requests of one step that are spread together.
const MOST: usize = 1 << 16;

/// An iterator that moves each request of a sorted one into its step of the grid.
pub(crate) struct Spread<I> {
    source: I,
    step: Duration,
    seed: u64,
    ready: VecDeque<TraceRequest>,
    next: Option<Result<TraceRequest, TraceError>>,
}

impl<I: Iterator<Item = Result<TraceRequest, TraceError>>> Spread<I> {
    pub(crate) fn new(source: I, step: Duration, seed: u64) -> Spread<I> {
        let seed = mix(seed, 0x5350_5245_4144);
        Spread { source, step, seed, ready: VecDeque::new(), next: None }
    }

    /// Takes the requests of one step together, up to the first of another.
    fn fill(&mut self, first: TraceRequest) {
        let at = first.at;
        self.ready.push_back(first);
        loop {
            match self.source.next() {
                Some(Ok(request)) if request.at == at && self.ready.len() < MOST => {
                    self.ready.push_back(request);
                }
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        let width = match &self.next {
            Some(Ok(next)) => next.at.since(at).min(self.step),
            _ => self.step,
        };
        let mut rng = Rng::new(self.seed).fork(at.as_nanos());
        let mut places: Vec<f64> = self.ready.iter().map(|_| rng.unit()).collect();
        places.sort_by(f64::total_cmp);
        for (request, place) in self.ready.iter_mut().zip(places) {
            let shift = libm::floor(width.as_nanos() as f64 * place);
            request.at = at + Duration::from_nanos(shift as u64);
        }
    }
}

impl<I: Iterator<Item = Result<TraceRequest, TraceError>>> Iterator for Spread<I> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            match self.next.take().or_else(|| self.source.next())? {
                Ok(first) if !self.step.is_zero() => self.fill(first),
                other => return Some(other),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
