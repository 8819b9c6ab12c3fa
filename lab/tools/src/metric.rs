//! The metrics of a run, one line each.
//!
//! That line is all a metric needs: tables, plots, published figures and results.json look it up
//! here by name. A dot in a name nests it in results.json.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::Duration;
use meridian_sim::{Fate, Record, Report};

use crate::dist::Dist;

/// One metric.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its description, with its unit.
    pub doc: &'static str,
    /// Digits after the point in tables.
    pub digits: usize,
    /// Shown as a percentage.
    pub percent: bool,
    /// Counts of failures are summed over seeds; everything else is averaged.
    pub sum: bool,
    /// Its value in a run; `None` if it does not apply.
    pub of: fn(&Run<'_>) -> Option<f64>,
}

/// A run with values that several metrics need.
pub struct Run<'a> {
    /// The report.
    pub report: &'a Report,
    /// Mean cost of a replica in USD an hour over the fleet.
    pub replica_price: Option<f64>,
    /// Time to first token at the client, ms, of requests that were answered completely.
    pub ttft: Option<Dist>,
    /// Time to the end at the client, ms, of the same.
    pub e2e: Option<Dist>,
    /// Time per output token after the first, ms, of the same.
    pub tpot: Option<Dist>,
}

impl<'a> Run<'a> {
    /// Prepares a report.
    #[must_use]
    pub fn new(report: &'a Report, replica_price: Option<f64>) -> Run<'a> {
        let done = || report.requests.iter().filter(|r| r.fate == Fate::Done);
        let tpot = |r: &Record| {
            let gaps = r.reply_tokens.checked_sub(1).filter(|n| *n > 0)?;
            Some(ms(r.e2e.saturating_sub(r.ttft)) / f64::from(gaps))
        };
        Run {
            report,
            replica_price,
            ttft: Dist::of(done().map(|r| ms(r.ttft)).collect()),
            e2e: Dist::of(done().map(|r| ms(r.e2e)).collect()),
            tpot: Dist::of(done().filter_map(tpot).collect()),
        }
    }

    fn count(&self, which: impl Fn(&Record) -> bool) -> f64 {
        self.report.requests.iter().filter(|r| which(r)).count() as f64
    }

    fn rate(&self, number: f64) -> Option<f64> {
        let seconds = self.report.window.as_secs_f64();
        (seconds > 0.0).then(|| number / seconds)
    }
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

const fn plain(
    name: &'static str,
    digits: usize,
    doc: &'static str,
    of: fn(&Run<'_>) -> Option<f64>,
) -> Metric {
    Metric { name, doc, digits, percent: false, sum: false, of }
}

const fn percent(name: &'static str, doc: &'static str, of: fn(&Run<'_>) -> Option<f64>) -> Metric {
    Metric { name, doc, digits: 2, percent: true, sum: false, of }
}

const fn sum(name: &'static str, doc: &'static str, of: fn(&Run<'_>) -> Option<f64>) -> Metric {
    Metric { name, doc, digits: 0, percent: false, sum: true, of }
}

macro_rules! times {
    ($name:literal, $field:ident, $what:literal, $digits:literal) => {
        [
            plain(concat!($name, ".mean"), $digits, concat!("mean ", $what), |r| {
                Some(r.$field.as_ref()?.mean)
            }),
            times!($name, $field, $what, $digits, 50),
            times!($name, $field, $what, $digits, 90),
            times!($name, $field, $what, $digits, 95),
            times!($name, $field, $what, $digits, 99),
        ]
    };
    ($name:literal, $field:ident, $what:literal, $digits:literal, $p:literal) => {
        plain(concat!($name, ".p", $p), $digits, concat!("P", $p, " ", $what), |r| {
            Some(r.$field.as_ref()?.p($p))
        })
    };
}

/// Times to first token at the client.
const TTFT: [Metric; 5] = times!("ttft_ms", ttft, "time to first token, ms", 0);
/// Times to the end at the client.
const E2E: [Metric; 5] = times!("e2e_ms", e2e, "time to the end, ms", 0);
/// Times per output token.
const TPOT: [Metric; 5] = times!("tpot_ms", tpot, "time per output token after the first, ms", 1);

/// Rates.
const RATES: [Metric; 3] = [
    plain("throughput_rps", 3, "requests answered a second", |r| {
        r.rate(r.report.done_in_window as f64)
    }),
    plain("output_tps", 1, "tokens answered a second", |r| {
        r.rate(r.report.tokens_in_window as f64)
    }),
    plain("goodput_rps", 3, "requests a second that met their TTFT objective", |r| {
        objectives(r).and_then(|(met, _)| r.rate(met))
    }),
];

/// Ratios and counts.
const REST: [Metric; 21] = [
    percent("prefix_hit_ratio", "cached prompt tokens to prompt tokens, %", |r| {
        let tokens = |get: fn(&Record) -> u32| {
            let done = r.report.requests.iter().filter(|r| r.fate == Fate::Done);
            done.map(|r| f64::from(get(r))).sum::<f64>()
        };
        share(tokens(|r| r.cached_tokens), tokens(|r| r.prompt_tokens))
    }),
    plain(
        "outstanding_spread",
        2,
        "largest to smallest mean number of outstanding requests of a replica",
        |r| spread(&r.report.samples, |s| f64::from(s.outstanding), Fold::Mean),
    ),
    percent("forwarded_ratio", "requests forwarded to a peer, %", |r| {
        share(r.count(|x| x.forwarded), r.count(|_| true))
    }),
    percent(
        "forwarded_worse_ratio",
        "forwarded requests with a longer TTFT than the last request before them that their \
         region served itself, %",
        forwarded_worse,
    ),
    sum(
        "idle_held",
        "requests that were forwarded to a full region without clients and queued there",
        |r| at_idle(r, |held| held.filter(|held| **held > 0.0).count() as f64),
    ),
    plain(
        "idle_held_ms",
        0,
        "longest time that such a region queued a forwarded request, ms",
        |r| at_idle(r, |held| held.copied().fold(0.0, f64::max)),
    ),
    plain("sent_back", 2, "forwards that a full peer sent back, per hundred requests", |r| {
        let back = r.report.requests.iter().map(|x| f64::from(x.sent_back)).sum::<f64>();
        share(100.0 * back, r.count(|_| true))
    }),
    percent("split_ratio", "requests whose prompt another replica computed, %", |r| {
        share(r.count(|x| x.crossing.is_some()), r.count(|_| true))
    }),
    plain("kv_transfer_ms", 1, "mean time that the KV of such a request took, ms", |r| {
        let crossings = || r.report.requests.iter().filter_map(|x| x.crossing);
        share(crossings().map(|c| ms(c.time)).sum(), crossings().count() as f64)
    }),
    percent("slo_attainment", "requests with a TTFT objective that met it, %", |r| {
        objectives(r).and_then(|(met, all)| share(met, all))
    }),
    plain("cct_ms", 1, "collective completion time, ms", |_| None),
    plain("earliness_ms", 1, "earliness of flows, ms", |_| None),
    plain("usd_per_hour", 2, "price of the replicas, USD an hour", |r| {
        let replicas = r.rate(r.report.replica_seconds)?;
        Some(replicas * r.replica_price?)
    }),
    sum("lost", "requests broken after they were accepted", |r| {
        Some(r.count(|x| x.fate == Fate::Lost))
    }),
    sum("violations", "broken invariants", |r| Some(r.report.violations.len() as f64)),
    percent("answered_ratio", "requests answered completely, %", |r| {
        share(r.count(|x| x.fate == Fate::Done), r.count(|_| true))
    }),
    sum("rejected", "requests refused by a gateway or an engine", |r| {
        Some(r.count(|x| matches!(x.fate, Fate::Rejected | Fate::Invalid)))
    }),
    plain("requests", 0, "requests that count", |r| Some(r.count(|_| true))),
    plain("held_ms", 0, "mean time queued in gateways, ms", |r| {
        let held: f64 = r.report.requests.iter().map(|x| ms(x.held)).sum();
        share(held, r.count(|_| true))
    }),
    plain("kv_peak_ratio", 2, "largest to smallest peak KV use of a replica", |r| {
        spread(&r.report.samples, |s| f64::from(s.kv_used), Fold::Peak)
    }),
    plain("kv_mean_ratio", 2, "largest to smallest mean KV use of a replica", |r| {
        spread(&r.report.samples, |s| f64::from(s.kv_used), Fold::Mean)
    }),
];

/// Every metric.
pub fn all() -> impl Iterator<Item = &'static Metric> + Clone {
    RATES.iter().chain(&TTFT).chain(&E2E).chain(&TPOT).chain(&REST)
}

/// The metric called `name`, with its place in [`all`].
#[must_use]
pub fn find(name: &str) -> Option<(usize, &'static Metric)> {
    all().enumerate().find(|(_, m)| m.name == name)
}

/// Descriptions of these columns, with their units, one line each.
#[must_use]
pub fn legend(names: &[&str]) -> Vec<String> {
    let of = names.iter().chain(&["lost"]).filter_map(|name| find(name));
    of.map(|(_, metric)| format!("{}: {}", metric.name, metric.doc)).collect()
}

/// A statistic of the times in ms that forwarded requests were held in regions without clients of
/// their own; `None` if every region has clients.
fn at_idle(r: &Run<'_>, of: impl Fn(std::slice::Iter<'_, f64>) -> f64) -> Option<f64> {
    let requests = &r.report.requests;
    let busy: BTreeSet<u16> = requests.iter().map(|x| x.region).collect();
    let there = requests.iter().filter(|x| x.forwarded && !busy.contains(&x.served));
    let held: Vec<f64> = there.map(|x| ms(x.held_away)).collect();
    (!held.is_empty()).then(|| of(held.iter()))
}

/// Requests that met their TTFT objective and those that had one; `None` when none had.
fn objectives(run: &Run<'_>) -> Option<(f64, f64)> {
    let all = run.count(|r| r.slo.is_some());
    let met = run.count(|r| r.fate == Fate::Done && r.slo.is_some_and(|slo| r.ttft <= slo));
    (all > 0.0).then_some((met, all))
}

fn forwarded_worse(run: &Run<'_>) -> Option<f64> {
    let mut by_time: Vec<&Record> =
        run.report.requests.iter().filter(|r| r.fate == Fate::Done).collect();
    by_time.sort_by_key(|r| (r.region, r.sent));
    let (mut worse, mut compared) = (0.0, 0.0);
    let mut home: Option<&Record> = None;
    for request in by_time {
        if !request.forwarded {
            home = Some(request);
        } else if let Some(home) = home.filter(|h| h.region == request.region) {
            compared += 1.0;
            worse += f64::from(u8::from(request.ttft > home.ttft));
        }
    }
    share(worse, compared)
}

#[derive(Clone, Copy)]
enum Fold {
    Mean,
    Peak,
}

/// The ratio of the largest to the smallest value among replicas, each folded over time; `None`
/// with fewer than two replicas or when one has zero.
fn spread(
    samples: &[meridian_sim::Sample],
    of: fn(&meridian_sim::Sample) -> f64,
    fold: Fold,
) -> Option<f64> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for sample in samples {
        let sum = sums.entry(sample.replica).or_default();
        match fold {
            Fold::Mean => *sum += of(sample),
            Fold::Peak => *sum = sum.max(of(sample)),
        }
    }
    let most = sums.values().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = sums.values().copied().fold(f64::INFINITY, f64::min);
    if sums.len() > 1 { share(most, least) } else { None }
}

#[cfg(test)]
mod tests;
