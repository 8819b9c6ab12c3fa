//! The measurements of one run.

use std::collections::BTreeMap;
use std::time::Duration;

use meridian_base::Time;
use meridian_routing::ShadowTotals;
use meridian_sim::{Fate, Record, Report};
use meridian_tools::load::{Quantiles, Slo, Times};
use meridian_workload::BYTES_PER_TOKEN;

use super::places::Places;
use super::waiting::Waiting;

/// Bytes of an event of a stream, one for each token: the mean of vLLM's in
/// `product/protocol/src/signals/fixtures/vllm/chat.sse`.
pub(super) const EVENT_BYTES: f64 = 237.0;

/// The measurements of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Requests sent in the window.
    pub(super) requests: f64,
    /// Answers a second that met the objective.
    pub(super) goodput_rps: f64,
    /// Answers a second.
    pub(super) throughput_rps: f64,
    /// Share of the requests that met the objective.
    pub(super) met: f64,
    /// The same of the region with the smallest share.
    pub(super) met_least: f64,
    /// Share of the requests that a gateway refused or that broke.
    pub(super) refused: f64,
    /// Share of the requests that are longer than the model's context.
    pub(super) invalid: f64,
    /// Share of the requests whose reply ends at the model's context, before its recorded end.
    pub(super) cut: f64,
    /// Share of the prompt tokens that were cached.
    pub(super) hits: f64,
    /// Share of the requests that another region served.
    pub(super) forwarded: f64,
    /// Share of the requests whose prompt another replica computed.
    pub(super) split: f64,
    /// Ms, of complete answers.
    pub(super) ttft_ms: Option<Quantiles>,
    /// Ms a token after the first, of complete answers.
    pub(super) tpot_ms: Option<Quantiles>,
    /// USD an hour for bytes between regions.
    pub(super) egress_usd: f64,
    /// Requests that wait for their first token.
    pub(super) waiting: Waiting,
    /// Requests that still waited for earlier answers at the end, and were never sent.
    pub(super) unsent: f64,
    /// Decisions of a shadow policy, warm-up included.
    pub(super) shadow: ShadowTotals,
}

impl Measured {
    /// Measures the requests that were sent in a window from `start` on; prompt and reply are at most
    /// `context` tokens.
    pub(super) fn of(
        report: &Report,
        (start, window): (Time, Duration),
        (slo, places): (&Slo, &Places),
        context: u32,
    ) -> Measured {
        let all = &report.requests;
        let times = |r: &Record| times(r, produced(r, context));
        let seconds = window.as_secs_f64();
        let done_by = |r: &&Record| r.sent + r.e2e <= start + window;
        let count =
            |which: &dyn Fn(&Record) -> bool| all.iter().filter(|r| which(r)).count() as f64;
        let share = |which: &dyn Fn(&Record) -> bool| count(which) / (all.len() as f64).max(1.0);
        let done = || all.iter().filter(|r| r.fate == Fate::Done);
        let good = |r: &Record| r.fate == Fate::Done && slo.is_met(times(r));
        let tokens = |of: fn(&Record) -> u32| done().map(|r| f64::from(of(r))).sum::<f64>();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Measured {
            requests: all.len() as f64,
            goodput_rps: count(&good) / seconds,
            throughput_rps: match window == report.window {
                true => report.done_in_window as f64,
                false => done().filter(done_by).count() as f64,
            } / seconds,
            met: share(&good),
            met_least: least_by_region(all, &good),
            refused: share(&|r| matches!(r.fate, Fate::Rejected | Fate::Lost)),
            invalid: share(&|r| r.fate == Fate::Invalid),
            cut: share(&|r| r.fate == Fate::Done && produced(r, context) < r.reply_tokens),
            hits: tokens(|r| r.cached_tokens) / tokens(|r| r.prompt_tokens).max(1.0),
            forwarded: share(&|r| r.forwarded),
            split: share(&|r| r.crossing.is_some()),
            ttft_ms: Quantiles::of(done().map(|r| ms(r.ttft)).collect()),
            tpot_ms: Quantiles::of(done().filter_map(|r| times(r).tpot).map(ms).collect()),
            egress_usd: all.iter().map(|r| egress(r, produced(r, context), places)).sum::<f64>()
                / seconds
                * 3600.0,
            waiting: Waiting::of(all, start, window),
            unsent: 0.0,
            shadow: report.shadow,
        }
    }
}

/// The smallest share of a region's requests that are good; 0 without requests.
fn least_by_region(all: &[Record], good: &dyn Fn(&Record) -> bool) -> f64 {
    let mut counts: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
    for record in all {
        let (met, of) = counts.entry(record.region).or_default();
        *met += f64::from(u8::from(good(record)));
        *of += 1.0;
    }
    counts.values().map(|(met, of)| met / of).reduce(f64::min).unwrap_or(0.0)
}

/// The tokens of an answer: an engine ends it where the context is full.
fn produced(record: &Record, context: u32) -> u32 {
    record.reply_tokens.min(context.saturating_sub(record.prompt_tokens))
}

/// The times of an answer of so many tokens.
fn times(record: &Record, tokens: u32) -> Times {
    let gaps = tokens.checked_sub(1).filter(|gaps| *gaps > 0);
    let tpot = gaps.map(|gaps| record.e2e.saturating_sub(record.ttft) / gaps);
    Times { ttft: Some(record.ttft), tpot, e2e: record.e2e }
}

/// USD for the bytes of a request that another region served: the prompt leaves the region where it
/// entered, the events of the answer leave the one that served it.
fn egress(record: &Record, tokens: u32, places: &Places) -> f64 {
    if record.served == record.region || record.fate != Fate::Done {
        return 0.0;
    }
    let price = |region: u16| places.regions[usize::from(region)].egress_usd_per_gb / 1e9;
    let prompt = f64::from(record.prompt_tokens * BYTES_PER_TOKEN);
    let reply = f64::from(tokens) * EVENT_BYTES;
    prompt * price(record.region) + reply * price(record.served)
}
