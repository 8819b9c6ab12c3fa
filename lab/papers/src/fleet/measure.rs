//! Measures a system: attainment at a rate, and the largest rate that meets the objectives.

use meridian_base::Time;
use meridian_plan::Slo;
use meridian_sim::fleet::{Record, Spent};

use super::build::Deployed;
use super::lengths::{Pair, requests};

/// The load, and its duration.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Lengths.
    pub pairs: &'a [Pair],
    /// Objectives.
    pub slo: Slo,
    /// Seconds of arrivals. The first half, in which queues and batches fill, does not count: a
    /// reply of a thousand tokens may wait minutes for its batch and still keep the mean of its
    /// tokens.
    pub window: f64,
    /// Seeds: 1 to this.
    pub seeds: u32,
}

/// The results at a rate; means over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Share of requests that met both objectives.
    pub attainment: f64,
    /// Mean TTFT in seconds, of requests that had a first token; NaN if there were none.
    pub ttft: f64,
    /// Mean TPOT in seconds, of requests that ended; NaN if there were none.
    pub tpot: f64,
    /// Mean tokens of KV held.
    pub kv_tokens: f64,
    /// Share of collectives in the prefill instances' steps.
    pub prefill_joining: f64,
    /// Share of collectives in the decode instances' steps.
    pub decode_joining: f64,
    /// How often each algorithm was chosen.
    pub picked: [u64; 4],
}

/// Part of the window that does not count.
const WARMUP: f64 = 0.5;

/// Runs a rate.
#[must_use]
pub fn score(deployed: &Deployed<'_>, asked: &Asked<'_>, rate: f64) -> Score {
    let mut sum = Score::default();
    for seed in 1..=asked.seeds {
        let one = once(deployed, asked, rate, u64::from(seed));
        sum.attainment += one.attainment;
        sum.ttft += one.ttft;
        sum.tpot += one.tpot;
        sum.kv_tokens += one.kv_tokens;
        sum.prefill_joining += one.prefill_joining;
        sum.decode_joining += one.decode_joining;
        sum.picked.iter_mut().zip(one.picked).for_each(|(sum, one)| *sum += one);
    }
    let count = f64::from(asked.seeds.max(1));
    for value in [
        &mut sum.attainment,
        &mut sum.ttft,
        &mut sum.tpot,
        &mut sum.kv_tokens,
        &mut sum.prefill_joining,
        &mut sum.decode_joining,
    ] {
        *value /= count;
    }
    sum
}

fn once(deployed: &Deployed<'_>, asked: &Asked<'_>, rate: f64, seed: u64) -> Score {
    let requests = requests(asked.pairs, rate, asked.window, seed);
    let longest = asked.pairs.iter().map(|pair| pair.1).max().unwrap_or(1);
    // Requests in time have ended by then, and the others were late anyway.
    let slowest = asked.slo.ttft + asked.slo.tpot * f64::from(longest);
    let until = Time::from_nanos(((asked.window + slowest) * 1e9) as u64);
    let first = Time::from_nanos((WARMUP * asked.window * 1e9) as u64);
    let skipped = requests.iter().filter(|request| request.at < first).count();
    let (report, picked) = deployed.run(requests, until);
    let counted = &report.records[skipped..];
    let mean = |get: fn(&Record) -> Option<f64>| {
        let all: Vec<f64> = counted.iter().filter_map(get).collect();
        // Without measurements this is NaN.
        all.iter().sum::<f64>() / all.len() as f64
    };
    let good = |record: &&Record| {
        record.ttft.is_some_and(|ttft| ttft <= asked.slo.ttft)
            && record.tpot.is_some_and(|tpot| tpot <= asked.slo.tpot)
    };
    let joining = |of: Spent| of.collectives / (of.collectives + of.computing).max(1e-9);
    Score {
        attainment: counted.iter().filter(good).count() as f64 / counted.len().max(1) as f64,
        ttft: mean(|record| record.ttft),
        tpot: mean(|record| record.tpot),
        kv_tokens: report.kv_tokens,
        prefill_joining: joining(report.prefill),
        decode_joining: joining(report.decode),
        picked,
    }
}

/// The largest rate at which the objective's share of requests is in time, to some 2 %, starting
/// from a guess.
#[must_use]
pub fn sustained(deployed: &Deployed<'_>, asked: &Asked<'_>, guess: f64) -> f64 {
    let good = |rate: f64| score(deployed, asked, rate).attainment >= asked.slo.attainment;
    let (mut low, mut high) = (0.0, guess.max(1e-3));
    for _ in 0..8 {
        if !good(high) {
            break;
        }
        (low, high) = (high, high * 1.5);
    }
    while high - low > 0.02 * high && high > 0.02 * guess {
        let middle = 0.5 * (low + high);
        if good(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
