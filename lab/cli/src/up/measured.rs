//! What the client of a run measured, in model time.

use std::path::Path;
use std::time::Duration;

use meridian_plan::Slo;
use meridian_tools::load::Record;
use meridian_tools::stats;

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Requests that are sent in this time at the start do not count.
    pub(super) warmup: Duration,
    /// The rest.
    pub(super) length: Duration,
    /// Seconds of model time in a second.
    pub(super) scale: f64,
}

/// The figures of a run. Times are in seconds of model time, rates in requests a second of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Requests that were sent.
    pub(super) rate: f64,
    /// Mean TTFT.
    pub(super) ttft: f64,
    /// The TTFT that the objective's share of requests stays below.
    pub(super) ttft_within: f64,
    /// Mean TPOT.
    pub(super) tpot: f64,
    /// Requests within both objectives.
    pub(super) good: f64,
    /// Mean tokens of prompts and of replies.
    pub(super) prompt: f64,
    pub(super) output: f64,
    /// Requests that count.
    pub(super) count: usize,
}

impl Window {
    /// The figures of the requests that were sent after the warm-up.
    pub(super) fn measured(&self, records: &[Record], slo: &Slo) -> Measured {
        let warmup = self.warmup.as_secs_f64() * 1e3;
        let sent: Vec<&Record> = records.iter().filter(|one| one.sent_ms >= warmup).collect();
        let done: Vec<&&Record> = sent.iter().filter(|one| one.error.is_none()).collect();
        let seconds = |ms: f64| ms / 1e3 * self.scale;
        let mut ttft: Vec<f64> = done.iter().filter_map(|one| one.ttft_ms).map(seconds).collect();
        ttft.sort_by(f64::total_cmp);
        let tpots: Vec<f64> = done.iter().filter_map(|one| one.tpot_ms()).map(seconds).collect();
        let good = done.iter().filter(|one| {
            one.ttft_ms.is_some_and(|ms| seconds(ms) <= slo.ttft)
                && one.tpot_ms().is_none_or(|ms| seconds(ms) <= slo.tpot)
        });
        let span = self.length.as_secs_f64() * self.scale;
        let tokens = |of: fn(&Record) -> u64| mean(done.iter().map(|one| of(one) as f64));
        let last = ttft.len().saturating_sub(1);
        let within = ((ttft.len() as f64 * slo.attainment) as usize).min(last);
        Measured {
            rate: sent.len() as f64 / span,
            ttft: mean(ttft.iter().copied()),
            ttft_within: ttft.get(within).copied().unwrap_or(f64::NAN),
            tpot: mean(tpots.into_iter()),
            good: good.count() as f64 / span,
            prompt: tokens(|one| one.prompt_tokens),
            output: tokens(|one| one.reply_tokens),
            count: sent.len(),
        }
    }

    /// The figures of a run's file.
    pub(super) fn of(&self, records: &Path, slo: &Slo) -> anyhow::Result<Measured> {
        Ok(self.measured(&Record::read(records)?, slo))
    }
}

fn mean(all: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = all.fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one));
    sum / count
}

/// The median of a figure over runs.
pub(super) fn median(runs: &[Measured], of: fn(&Measured) -> f64) -> f64 {
    let all: Vec<f64> = runs.iter().map(of).collect();
    stats::median(&all).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sent_ms: f64, ttft_ms: f64, tpot_ms: f64) -> Record {
        Record {
            sent_ms,
            ttft_ms: Some(ttft_ms),
            e2e_ms: ttft_ms + 10.0 * tpot_ms,
            error: None,
            aborted: false,
            forwarded: false,
            prompt_tokens: 100,
            cached_tokens: None,
            reply_tokens: 11,
        }
    }

    // Requests of the warm-up do not count, times and rates are those of the model, a failed request was
    // sent and is not good, and one is good that meets both objectives.
    #[test]
    fn figures_are_in_model_time() {
        let window =
            Window { warmup: Duration::from_secs(1), length: Duration::from_secs(2), scale: 2.0 };
        let slo = Slo { ttft: 1.0, tpot: 0.1, attainment: 0.5 };
        let mut failed = record(2_500.0, 1.0, 1.0);
        failed.error = Some(meridian_tools::load::ErrorKind::Timeout);
        let records = [
            record(500.0, 9_000.0, 9.0),
            record(1_000.0, 200.0, 20.0),
            record(1_500.0, 400.0, 60.0),
            record(2_900.0, 600.0, 40.0),
            failed,
        ];
        let found = window.measured(&records, &slo);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{found:?}");
        near(found.rate, 1.0);
        near(found.ttft, 0.8);
        near(found.ttft_within, 0.8);
        near(found.tpot, 0.08);
        near(found.good, 0.25);
        assert_eq!((found.prompt, found.output, found.count), (100.0, 11.0, 4));
    }

    // An odd number of runs has one in the middle; of two it is between them.
    #[test]
    fn medians() {
        let run = |ttft| Measured { ttft, ..Measured::default() };
        let all = [run(3.0), run(1.0), run(2.0)];
        assert_eq!(median(&all, |one| one.ttft), 2.0);
        assert_eq!(median(&all[..2], |one| one.ttft), 2.0);
    }
}
