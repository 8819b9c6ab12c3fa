//! Progress of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tally::{Tally, Times};

/// Running counts and quantiles: one line of `--live-json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Seconds since the start.
    pub t_s: f64,
    /// Requests started.
    pub sent: u64,
    /// Whole answers.
    pub ok: u64,
    /// Failed requests.
    pub errors: u64,
    /// Requests whose client disconnected on purpose.
    pub aborted: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Whole answers a second since the last tick.
    pub rps: f64,
    /// Tokens of whole answers a second since the last tick.
    pub output_tps: f64,
    /// TTFT of the whole run so far.
    pub ttft_ms: Quick,
    /// TTFT since the last tick.
    pub recent_ttft_ms: Quick,
    /// Cached share of the prompt tokens.
    pub cached_share: Option<f64>,
    /// Answers by replica.
    pub replicas: BTreeMap<String, u64>,
}

/// Two quantiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quick {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Number of measurements.
    pub count: u64,
}

impl Quick {
    fn of(times: &Times) -> Quick {
        Quick { p50: times.ms(0.5), p99: times.ms(0.99), count: times.count() }
    }
}

/// Receives the progress of a run.
pub trait Progress: Send {
    /// Called every [`Options::tick`](super::Options::tick), and once at the end.
    fn tick(&mut self, live: &Live);
}

impl<F: FnMut(&Live) + Send> Progress for F {
    fn tick(&mut self, live: &Live) {
        self(live);
    }
}

/// Creates the lines, remembering the last one.
#[derive(Default)]
pub(super) struct Ticker {
    t_s: f64,
    ok: u64,
    tokens: u64,
}

impl Ticker {
    pub(super) fn tick(&mut self, t_s: f64, tally: &mut Tally) -> Live {
        let counts = &tally.counts;
        let gap = (t_s - self.t_s).max(1e-3);
        let live = Live {
            t_s: (t_s * 1e3).round() / 1e3,
            sent: counts.sent,
            ok: counts.ok,
            errors: counts.errors,
            aborted: counts.aborted,
            in_flight: tally.in_flight(),
            rps: (counts.ok - self.ok) as f64 / gap,
            output_tps: (counts.output_tokens - self.tokens) as f64 / gap,
            ttft_ms: Quick::of(&tally.ttft),
            recent_ttft_ms: Quick::of(&tally.recent_ttft),
            cached_share: counts.cached_share(),
            replicas: tally.replicas.iter().map(|(k, v)| (k.clone(), v.requests)).collect(),
        };
        *self = Ticker { t_s, ok: counts.ok, tokens: counts.output_tokens };
        tally.recent_ttft.clear();
        live
    }
}
