//! The last hour in fixed memory: a ring of intervals of 10 s with the figures of each.
//!
//! It takes the gateway's counters about once a second and keeps their differences. It has no clock:
//! the sampler passes in the time. A reload of the configuration does not touch it; a restart starts
//! an empty one.

use std::collections::VecDeque;

use meridian_protocol::admin::{self, Point};

use super::latency::Latencies;
use super::saved::Sums;

/// Length of an interval, s.
pub(super) const STEP_S: u32 = 10;
/// Intervals kept: an hour.
pub(super) const KEPT: usize = 360;

/// Counters of the gateway, since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) output_tokens: u64,
}

/// The state at one moment, and new events since the last one.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) totals: Totals,
    pub(super) held: u32,
    pub(super) kv_used: Option<f32>,
    pub(super) ttft_ms: Vec<f32>,
    pub(super) sums: Sums,
}

/// An interval that is not over yet, or the one before it.
#[derive(Clone, Debug, Default)]
struct Interval {
    at_s: u64,
    /// Monotonic seconds at its start and at its newest sample.
    start: f64,
    end: f64,
    /// The counters at its start and now.
    first: Totals,
    last: Totals,
    held: u32,
    kv_used: Option<f32>,
    latencies: Latencies,
    sums: Sums,
}

/// A complete interval.
#[derive(Clone, Copy, Debug)]
struct Kept {
    point: Point,
    sums: Sums,
}

/// The last hour.
#[derive(Debug)]
pub(super) struct History {
    ring: VecDeque<Kept>,
    before: Option<Interval>,
    now: Interval,
}

impl History {
    /// Starts now: in seconds of a monotonic clock, and since 1970.
    pub(super) fn start(clock_s: f64, wall_s: u64) -> History {
        let now = Interval { at_s: wall_s, start: clock_s, end: clock_s, ..Interval::default() };
        History { ring: VecDeque::with_capacity(KEPT), before: None, now }
    }

    pub(super) fn add(&mut self, clock_s: f64, wall_s: u64, sample: &Sample) {
        self.now.add(clock_s, sample);
        if clock_s - self.now.start < f64::from(STEP_S) {
            return;
        }
        if self.ring.len() == KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(Kept { point: self.now.point(), sums: self.now.sums });
        assert!(self.ring.len() <= KEPT, "the page has an hour");
        let last = sample.totals;
        // The wall clock may have been set back; times of points stay in order.
        let at_s = wall_s.max(self.now.at_s + u64::from(STEP_S));
        assert!(at_s > self.now.at_s, "the points of the page are in order");
        let next = Interval {
            at_s,
            start: clock_s,
            end: clock_s,
            first: last,
            last,
            ..Interval::default()
        };
        self.before = Some(std::mem::replace(&mut self.now, next));
    }

    /// The points from `since` on, oldest first; the last one is not complete.
    pub(super) fn points(&self, since: u64) -> Vec<Point> {
        let kept = self.ring.iter().map(|kept| kept.point);
        let all = kept.chain((self.now.end > self.now.start).then(|| self.now.point()));
        all.filter(|point| point.at_s >= since).collect()
    }

    /// The start of the interval that is not over.
    pub(super) fn current(&self) -> u64 {
        self.now.at_s
    }

    /// The figures of the last complete interval and the present one together.
    pub(super) fn recent(&self) -> Point {
        let Some(before) = &self.before else { return self.now.point() };
        Interval {
            latencies: self.now.latencies.clone().with(&before.latencies),
            last: self.now.last,
            end: self.now.end,
            held: self.now.held.max(before.held),
            kv_used: self.now.kv_used.or(before.kv_used),
            ..before.clone()
        }
        .point()
    }

    /// The comparison of all decisions that are kept.
    pub(super) fn saved(&self) -> admin::Saved {
        let all = self.ring.iter().fold(self.now.sums, |sum, kept| sum.plus(&kept.sums));
        let seconds: f64 = self.ring.iter().map(|kept| f64::from(kept.point.seconds)).sum();
        all.shown(seconds + self.now.end - self.now.start)
    }
}

impl Interval {
    fn add(&mut self, clock_s: f64, sample: &Sample) {
        self.end = clock_s;
        self.last = sample.totals;
        self.held = self.held.max(sample.held);
        self.kv_used = sample.kv_used.or(self.kv_used);
        sample.ttft_ms.iter().for_each(|ms| self.latencies.add(*ms));
        self.sums = self.sums.plus(&sample.sums);
    }

    fn point(&self) -> Point {
        let Interval { first, last, .. } = self;
        let seconds = self.end - self.start;
        let rate = |of: fn(&Totals) -> u64| {
            let count = of(last).saturating_sub(of(first)) as f64;
            if seconds > 0.0 { (count / seconds) as f32 } else { 0.0 }
        };
        let prompt = last.prompt_tokens.saturating_sub(first.prompt_tokens);
        let cached = last.cached_tokens.saturating_sub(first.cached_tokens);
        Point {
            at_s: self.at_s,
            seconds: seconds as f32,
            requests_per_s: rate(|totals| totals.requests),
            errors_per_s: rate(|totals| totals.errors),
            ttft_p50_ms: self.latencies.quantile(0.5),
            ttft_p99_ms: self.latencies.quantile(0.99),
            hit_ratio: (prompt > 0).then(|| (cached as f64 / prompt as f64) as f32),
            held: self.held,
            tokens_per_s: rate(|totals| totals.output_tokens),
            kv_used: self.kv_used,
        }
    }
}

#[cfg(test)]
mod tests;
