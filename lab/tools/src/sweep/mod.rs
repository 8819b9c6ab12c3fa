//! Measures an endpoint at several rates and finds the most requests a second that it serves
//! within an objective.
//!
//! The rates are a list, or those of a [`search`]: doubled until one misses the objective, then
//! bisected. Every rate gets a warm-up and a window, as an open loop ([`crate::load`]) whose
//! prompts no other window has sent. GORGO calls this load "sweep" (section 4.3).
//!
//! The highest of several noisy rates is too high on average. So a search is repeated in rounds,
//! and the lowest of its results is measured again, in as many fresh windows: these figures are of
//! a rate that was fixed before. For a list, each rate is measured once a round.

mod output;
mod point;
mod search;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use meridian_base::mix;
use serde::Serialize;

use crate::load::{self, Arrivals, Live};
use crate::stats;
pub use output::{csv, json, render, svg};
pub use point::{Phase, Point};
use search::Search;

/// Repetitions of a window in which the client was slow.
const AGAIN: u32 = 2;
/// Doublings of the first rate that an estimate assumes.
const DOUBLINGS: u32 = 3;
/// Rates below this are not searched.
const LEAST: f64 = 0.05;

/// Options of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// The load; its arrivals, lengths and seeds are set by the sweep. It has an objective.
    pub load: load::Options,
    /// The rates to measure, rising; empty for a search.
    pub rates: Vec<f64>,
    /// First rate of a search.
    pub from: f64,
    /// Highest rate of a search.
    pub most: f64,
    /// Ends a search when the rates that meet and miss the objective are this share apart.
    pub precision: f64,
    /// Time at each rate that is not measured.
    pub warmup: Duration,
    /// Time at each rate that is measured.
    pub window: Duration,
    /// Repetitions.
    pub rounds: u32,
}

/// Where a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The part of the sweep.
    pub phase: Phase,
    /// The round, from 1.
    pub round: u32,
    /// The rate.
    pub rate: f64,
    /// Windows measured so far.
    pub done: u32,
    /// Windows to the end, including this one; of a search an estimate.
    pub left: u32,
}

/// Receives the progress of a sweep.
pub type Watch = Arc<dyn Fn(&Step, &Live) + Send + Sync>;

/// The results of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// Always `sweep`.
    pub bench: &'static str,
    /// Commit that was built, or the version.
    pub commit: String,
    /// The options.
    pub options: Options,
    /// Every measurement.
    pub points: Vec<Point>,
    /// The highest rate that met the objective, by round; of a search only.
    pub maxima: Vec<f64>,
    /// The highest rate that the sweep stands for.
    pub found: Option<Found>,
    /// Why the sweep ended before its end.
    pub ended: Option<Ended>,
}

/// A rate that meets the objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Requests a second.
    pub rate: f64,
    /// Share of the requests that met it, over rounds, with its interval.
    pub attainment: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Windows it was measured in: fresh ones, if the sweep was a search and ran to its end.
    pub rounds: usize,
    /// Whether these windows met the objective on average.
    pub met: bool,
}

/// Why a sweep ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The user ended it.
    Stopped,
    /// No request of a window was answered.
    Dead,
    /// A window could not be measured.
    Failed(String),
}

impl Options {
    /// Windows of the whole sweep; of a search an estimate, since each result decides what follows.
    #[must_use]
    pub fn windows(&self) -> u32 {
        let round = match self.rates.len() as u32 {
            0 => {
                Search::new(self.from, [LEAST.min(self.from), self.most], self.precision).left()
                    + DOUBLINGS
            }
            rates => rates,
        };
        // A search measures its result again, once a round.
        let fresh = if self.rates.is_empty() { self.rounds } else { 0 };
        self.rounds.saturating_mul(round).saturating_add(fresh)
    }

    /// How long they take.
    #[must_use]
    pub fn length(&self) -> Duration {
        (self.warmup + self.window).saturating_mul(self.windows())
    }

    fn validate(&self) -> anyhow::Result<()> {
        ensure!(self.load.slo.is_some(), "slo is missing: give one, as in ttft=500ms,share=0.95");
        ensure!(!self.window.is_zero(), "window is 0: nothing would be measured, use 10s or more");
        ensure!(self.rounds > 0, "rounds is 0: use 1 or more");
        let (from, most) = (self.from, self.most);
        let good = |rate: f64| rate.is_finite() && rate > 0.0;
        if let Some(bad) = self.rates.iter().find(|rate| !good(**rate)) {
            bail!("rates has {bad}: use numbers above 0");
        }
        let rising = self.rates.is_sorted_by(|a, b| a < b);
        ensure!(rising, "rates are {:?}: give each once, from low to high", self.rates);
        ensure!(good(from) && good(most), "from is {from} and most is {most}: use numbers above 0");
        ensure!(from <= most, "from is {from} and most is {most}: use a lower from");
        let precision = self.precision;
        ensure!((0.01..=1.0).contains(&precision), "precision is {precision}: use 0.01 to 1");
        Ok(())
    }
}

/// Runs the sweep until its end or until `stop` resolves.
///
/// # Errors
/// Options that measure nothing, or an endpoint that cannot be used.
pub async fn run(
    mut options: Options,
    watch: Option<Watch>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Sweep> {
    options.validate()?;
    // Asked once: an endpoint that dies later ends the sweep, and does not undo it.
    options.load.model = Some(load::model(&options.load).await?);
    let mut stop = Box::pin(stop);
    let mut sweep = Runner { options: &options, watch, points: Vec::new(), ended: None };
    let maxima = match options.rates.is_empty() {
        true => sweep.search(stop.as_mut()).await?,
        false => sweep.list(stop.as_mut()).await.map(|()| Vec::new())?,
    };
    if let Some(lowest) = maxima.iter().copied().reduce(f64::min) {
        sweep.confirm(lowest, stop.as_mut()).await?;
    }
    let Runner { points, ended, .. } = sweep;
    // A list has no fresh windows, nor has a search that ended early.
    let fresh = found(&points, Phase::Confirm, &options).pop();
    let highest = || found(&points, Phase::Search, &options).into_iter().rfind(|found| found.met);
    let found = fresh.or_else(highest);
    let commit = crate::commit();
    Ok(Sweep { bench: "sweep", commit, options, points, maxima, found, ended })
}

/// Every rate of a phase, with its share over rounds, rising.
fn found(points: &[Point], phase: Phase, options: &Options) -> Vec<Found> {
    let share = options.load.slo.map_or(1.0, |slo| slo.share);
    let of: Vec<&Point> = points.iter().filter(|point| point.phase == phase).collect();
    let mut rates: Vec<f64> = of.iter().map(|point| point.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let one = |rate: f64| {
        // A window in which the client was slow counts only if there is no other.
        let all = of.iter().filter(|point| point.rate == rate);
        let on_time = all.clone().any(|point| !point.client_is_slow);
        let here = || all.clone().filter(|point| !(on_time && point.client_is_slow));
        let shares: Vec<f64> = here().map(|point| point.attainment).collect();
        let mean = stats::mean(&shares)?;
        let met = mean.mean >= share && !here().any(|p| p.client_is_slow || p.shed > 0);
        let (attainment, low, high) = (mean.mean, mean.low, mean.high);
        Some(Found { rate, attainment, low, high, rounds: shares.len(), met })
    };
    rates.into_iter().filter_map(one).collect()
}

type Stop<'a, S> = Pin<&'a mut S>;

struct Runner<'a> {
    options: &'a Options,
    watch: Option<Watch>,
    points: Vec<Point>,
    ended: Option<Ended>,
}

impl Runner<'_> {
    async fn list<S: Future<Output = ()>>(&mut self, mut stop: Stop<'_, S>) -> anyhow::Result<()> {
        let rates = &self.options.rates;
        let mut left = self.options.rounds * rates.len() as u32;
        for round in 1..=self.options.rounds {
            for rate in rates {
                let at = (Phase::Search, round, *rate);
                if self.on_time(at, left, stop.as_mut()).await?.is_none() {
                    return Ok(());
                }
                left -= 1;
            }
        }
        Ok(())
    }

    /// The highest rate of each round.
    async fn search<S: Future<Output = ()>>(
        &mut self,
        mut stop: Stop<'_, S>,
    ) -> anyhow::Result<Vec<f64>> {
        let Options { from, most, precision, rounds, .. } = *self.options;
        let mut maxima: Vec<f64> = Vec::new();
        for round in 1..=rounds {
            // Later rounds begin near the result of the earlier ones.
            let first = maxima.last().map_or(from, |rate| rate / 2.0);
            let mut search = Search::new(first, [LEAST.min(from), most], precision);
            let before = self.points.len() as u32;
            while let Some(rate) = search.next() {
                // The other rounds take about as long as this one, and so do fresh windows.
                let here = self.points.len() as u32 - before + search.left();
                let left = search.left() + (rounds - round) * here + rounds;
                let at = (Phase::Search, round, rate);
                let Some(met) = self.on_time(at, left, stop.as_mut()).await? else {
                    return Ok(Vec::new());
                };
                search.tell(rate, met);
                let slow = self.points.last().is_some_and(|point| point.client_is_slow);
                if slow && search.found().is_none() {
                    // Lower rates would say as little about the endpoint.
                    break;
                }
            }
            match search.found() {
                Some(rate) => maxima.push(rate),
                None => break,
            }
        }
        Ok(maxima)
    }

    /// [`Self::measure`], again if the client was slow: on a busy machine that may be chance.
    async fn on_time<S: Future<Output = ()>>(
        &mut self,
        at: (Phase, u32, f64),
        left: u32,
        mut stop: Stop<'_, S>,
    ) -> anyhow::Result<Option<bool>> {
        let mut met = self.measure(at, left, stop.as_mut()).await?;
        for _ in 0..AGAIN {
            let slow = self.points.last().is_some_and(|point| point.client_is_slow);
            if met.is_none() || !slow {
                break;
            }
            met = self.measure(at, left, stop.as_mut()).await?;
        }
        Ok(met)
    }

    async fn confirm<S: Future<Output = ()>>(
        &mut self,
        rate: f64,
        mut stop: Stop<'_, S>,
    ) -> anyhow::Result<()> {
        for round in 1..=self.options.rounds {
            let left = self.options.rounds - round + 1;
            let at = (Phase::Confirm, round, rate);
            if self.on_time(at, left, stop.as_mut()).await?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Measures one rate; returns whether it met the objective, or `None` if the sweep ends here.
    async fn measure<S: Future<Output = ()>>(
        &mut self,
        at: (Phase, u32, f64),
        left: u32,
        stop: Stop<'_, S>,
    ) -> anyhow::Result<Option<bool>> {
        let (phase, round, rate) = at;
        let done = self.points.len() as u32;
        let step = Step { phase, round, rate, done, left };
        let slo = self.options.load.slo.context("a sweep has an objective")?;
        let progress = self.watch.clone().map(|watch| -> Box<dyn load::Progress> {
            Box::new(move |live: &Live| watch(&step, live))
        });
        let work = load::run(self.load(rate, done), progress, std::future::pending());
        let measured = tokio::select! {
            report = work => report,
            () = stop => {
                self.ended = Some(Ended::Stopped);
                return Ok(None);
            }
        };
        let measured = measured.and_then(|report| {
            Point::of(&report, at, slo).with_context(|| {
                let window = self.options.window;
                format!("no request in {window:?}: use a longer --window or higher rates")
            })
        });
        let point = match measured.with_context(|| format!("at {rate} requests/s")) {
            Ok(point) => point,
            // The windows so far stay.
            Err(error) if done > 0 => {
                self.ended = Some(Ended::Failed(format!("{error:#}")));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (met, dead) = (point.met, point.is_dead());
        self.points.push(point);
        if dead {
            self.ended = Some(Ended::Dead);
            return Ok(None);
        }
        Ok(Some(met))
    }

    /// The load of the `nth` window: its prompts are its own, so no earlier window has cached them.
    fn load(&self, rate: f64, nth: u32) -> load::Options {
        let Options { load, warmup, window, .. } = self.options;
        load::Options {
            arrivals: Arrivals::Requests { per_second: rate },
            duration: Some(*warmup + *window),
            warmup: *warmup,
            programs: None,
            requests: None,
            seed: mix(load.seed, u64::from(nth)),
            arrival_seed: None,
            records: None,
            ..load.clone()
        }
    }
}
