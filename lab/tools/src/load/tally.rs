//! Counts and histograms of a run. Counts cover the whole run; timings exclude the warm-up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::outcome::{End, ErrorKind, Seen};
use super::records::Kept;
use super::report::{Counts, Quantiles, ReplicaCounts};
use super::{Slo, slo};

/// Most replicas with separate counts; the others share one row.
const MAX_REPLICAS: usize = 4096;

/// Durations in microseconds, up to an hour, with three digits.
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> Times {
        Times(Histogram::new_with_max(3_600_000_000, 3).expect("the bounds are constants"))
    }

    pub(super) fn record(&mut self, d: Duration) {
        let micros = u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.max(1));
    }

    pub(super) fn clear(&mut self) {
        self.0.reset();
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn ms(&self, q: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(q) as f64 / 1e3)
    }

    pub(super) fn quantiles(&self) -> Option<Quantiles> {
        Some(Quantiles {
            mean: (!self.0.is_empty()).then(|| (self.0.mean() / 1e3 * 1e3).round() / 1e3)?,
            p50: self.ms(0.50)?,
            p90: self.ms(0.90)?,
            p95: self.ms(0.95)?,
            p99: self.ms(0.99)?,
        })
    }
}

/// When a request started, and how it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    /// The start that TTFT and E2E count from.
    pub(super) from: Instant,
    /// Whether it falls in the warm-up.
    pub(super) warm: bool,
}

/// Everything counted so far.
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) errors: BTreeMap<ErrorKind, u64>,
    pub(super) replicas: BTreeMap<String, ReplicaCounts>,
    pub(super) ttft: Times,
    pub(super) tpot: Times,
    pub(super) e2e: Times,
    pub(super) lateness: Times,
    /// TTFT since the last progress.
    pub(super) recent_ttft: Times,
    /// Complete answers and their tokens during the run, without the warm-up.
    pub(super) window: Window,
    /// A sample of the measured requests.
    pub(super) kept: Kept,
}

/// Requests completed between the end of the warm-up and the last start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) ok: u64,
    pub(super) good: u64,
    pub(super) tokens: u64,
    /// Measured requests without those that their client cancelled, and those of them that were
    /// answered within the objective, whenever.
    pub(super) measured: u64,
    pub(super) met: u64,
    /// Set when no more requests start: later answers do not count as throughput.
    pub(super) closed: bool,
}

impl Tally {
    pub(super) fn new(seed: u64) -> Tally {
        Tally {
            counts: Counts::default(),
            errors: BTreeMap::new(),
            replicas: BTreeMap::new(),
            ttft: Times::new(),
            tpot: Times::new(),
            e2e: Times::new(),
            lateness: Times::new(),
            recent_ttft: Times::new(),
            window: Window::default(),
            kept: Kept::new(seed),
        }
    }

    /// Records the start of a request.
    pub(crate) fn begin(&mut self, warm: bool) {
        self.counts.sent += 1;
        self.window.measured += u64::from(!warm);
        self.counts.most_in_flight = self.counts.most_in_flight.max(self.in_flight());
    }

    /// Requests in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.counts.sent - self.counts.ended()
    }

    /// Records the end of a request.
    pub(super) fn end(&mut self, start: Started, end: End, seen: &Seen, slo: Option<&Slo>) {
        match end {
            End::Ok => self.counts.ok += 1,
            End::Aborted => {
                self.counts.aborted += 1;
                self.window.measured -= u64::from(!start.warm);
            }
            End::Error(kind) => {
                self.counts.errors += 1;
                self.counts.bare += u64::from(seen.pieces == 0);
                *self.errors.entry(kind).or_default() += 1;
            }
        }
        self.by_replica(end, seen);
        if end != End::Ok {
            return;
        }
        self.tokens(seen);
        if !start.warm {
            self.times(start.from.elapsed(), seen, slo);
        }
    }

    fn tokens(&mut self, seen: &Seen) {
        self.counts.output_tokens += seen.tokens();
        let Some(usage) = seen.usage else { return };
        self.counts.prompt_tokens += usage.prompt;
        if let Some(cached) = usage.cached {
            self.counts.cached_tokens += cached;
            self.counts.known_prompt_tokens += usage.prompt;
        }
    }

    fn times(&mut self, e2e: Duration, seen: &Seen, slo: Option<&Slo>) {
        self.e2e.record(e2e);
        let tpot = seen.tpot(e2e);
        if let Some(ttft) = seen.ttft {
            self.ttft.record(ttft);
            self.recent_ttft.record(ttft);
        }
        if let Some(tpot) = tpot {
            self.tpot.record(tpot);
        }
        let met = slo.is_none_or(|slo| slo.is_met(slo::Times { ttft: seen.ttft, tpot, e2e }));
        self.window.met += u64::from(met);
        if !self.window.closed {
            self.window.ok += 1;
            self.window.good += u64::from(met);
            self.window.tokens += seen.tokens();
        }
    }

    fn by_replica(&mut self, end: End, seen: &Seen) {
        let Some(name) = seen.replica.as_ref().and_then(|r| r.to_str().ok()) else { return };
        if !self.replicas.contains_key(name) {
            let full = self.replicas.len() >= MAX_REPLICAS;
            let name = if full { "(others)" } else { name };
            self.replicas.entry(name.to_owned()).or_default();
        }
        let known = self.replicas.contains_key(name);
        let row = self.replicas.get_mut(if known { name } else { "(others)" });
        let Some(row) = row else { return };
        row.requests += 1;
        row.ok += u64::from(end == End::Ok);
        if let (End::Ok, Some(usage)) = (end, seen.usage) {
            row.output_tokens += usage.completion;
            if let Some(cached) = usage.cached {
                row.prompt_tokens += usage.prompt;
                row.cached_tokens += cached;
            }
        }
    }
}
