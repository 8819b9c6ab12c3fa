//! One run: a policy on a fleet, under one seed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use meridian_base::Time;
use meridian_sim as sim;
use meridian_tools::replay::WAITS;
use meridian_tools::rule::Rule;

use super::fleet::{Arrangement, fleet};
use super::measured::Measured;
use super::question::Question;
use super::traffic::{Sent, Stream};
use crate::experiment::build;

/// A policy on a fleet.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) policy: &'a Rule,
    pub(super) arrangement: Arrangement,
    pub(super) replicas: u32,
}

/// Requests of all seeds at most, as they are kept in memory.
const MOST_REQUESTS: u64 = 4 << 20;
const DAY_S: u64 = 86_400;
/// The longest traffic. Probes and digests are simulated too, so that idle time is not free.
const LONGEST: Duration = Duration::from_secs(366 * DAY_S);

/// A question with the programs of its seeds.
pub(super) struct Prepared<'a> {
    pub(super) question: &'a Question,
    sent: BTreeMap<u64, Sent>,
    /// What the reader has to know about them.
    pub(super) notes: Vec<String>,
}

impl<'a> Prepared<'a> {
    /// Makes the programs.
    pub(super) fn new(question: &'a Question) -> anyhow::Result<Prepared<'a>> {
        ensure!(question.seeds > 0, "seeds: 0 runs nothing; use 1 or more");
        let mut all = 0;
        let sent = question.seeds().map(|seed| {
            let sent = question.traffic.sent(&question.places, seed)?.kept(&question.places);
            sent.check(&question.places)?;
            let (warmup, last) = (question.warmup, sent.last);
            ensure!(
                !last.is_zero(),
                "all requests arrive at once, so there is no time to measure; use more of them, or \
                 a lower {}",
                question.traffic.pace()
            );
            ensure!(
                last <= LONGEST,
                "the requests take {:.0} days, and at most {} are simulated; use a higher {}, or \
                 fewer --requests",
                last.as_secs_f64() / DAY_S as f64,
                LONGEST.as_secs() / DAY_S,
                question.traffic.pace()
            );
            ensure!(
                warmup < last,
                "warmup: {warmup:?} is not shorter than the requests' {last:.1?}; use less"
            );
            all += sent.requests;
            ensure!(
                all <= MOST_REQUESTS,
                "seeds: {} of {} requests each are over {MOST_REQUESTS} together; use fewer",
                question.seeds,
                sent.requests
            );
            Ok((seed, sent))
        });
        let sent = sent.collect::<anyhow::Result<BTreeMap<u64, Sent>>>()?;
        let matched = |rule| {
            let mut streams = sent.values().flat_map(|sent| &sent.streams);
            streams.any(|stream| stream.rules.contains(&rule))
        };
        let notes = question.places.rules.idle(matched);
        Ok(Prepared { question, sent, notes })
    }

    /// Requests of a seed, and the seconds in which they arrive, in the mean.
    pub(super) fn size(&self) -> (f64, f64) {
        let all = self.sent.values();
        let count = all.len() as f64;
        let mean = |of: &dyn Fn(&Sent) -> f64| self.sent.values().map(of).sum::<f64>() / count;
        (mean(&|sent| sent.requests as f64), mean(&|sent| sent.last.as_secs_f64()))
    }

    /// Runs a cell under each seed.
    pub(crate) fn run(&self, cell: Cell<'_>) -> anyhow::Result<Vec<Measured>> {
        self.sent.iter().map(|(seed, sent)| self.one(cell, *seed, sent)).collect()
    }

    fn one(&self, cell: Cell<'_>, seed: u64, sent: &Sent) -> anyhow::Result<Measured> {
        let question = self.question;
        let (report, context) = self.simulate(cell, seed, sent)?;
        let slo = (&question.slo, &question.places);
        let start = Time::ZERO + question.warmup;
        let window = match sent.waits {
            true => until_the_last(&report, start),
            false => report.window,
        };
        let unsent = if sent.waits { sent.requests - report.total_requests } else { 0 };
        let measured = Measured::of(&report, (start, window), slo, context);
        Ok(Measured { unsent: unsent as f64, ..measured })
    }

    /// The requests of a cell under the first seed.
    #[cfg(test)]
    pub(super) fn records(&self, cell: Cell<'_>) -> Vec<sim::Record> {
        let (seed, sent) = self.sent.first_key_value().expect("a seed");
        self.simulate(cell, *seed, sent).expect("it runs").0.requests
    }

    /// The report of a cell, and the shortest context of its replicas.
    fn simulate(
        &self,
        cell: Cell<'_>,
        seed: u64,
        sent: &Sent,
    ) -> anyhow::Result<(sim::Report, u32)> {
        let question = self.question;
        let warmup = question.warmup;
        // The last request is sent inside, unless it waits for an answer still longer.
        let later = if sent.waits { WAITS } else { Duration::from_millis(1) };
        let window = sent.last.saturating_sub(warmup) + later;
        let fleet = fleet(question, cell.replicas, cell.arrangement);
        let mut system = cell.policy.system(question.places.topology);
        system.held = question.held;
        system.shadow =
            question.traffic.shadow.as_ref().and_then(|live| live.beside(cell.policy.spec));
        system.news = build::news(cell.policy.spec);
        let replicas = build::replicas(&fleet, false)?;
        let context = replicas.iter().map(|one| one.engine.max_model_len).min().unwrap_or(0);
        let scenario = sim::Scenario {
            seed,
            regions: question.places.simulated(),
            wan: question.places.wan.clone(),
            replicas,
            system,
            loads: sent.streams.iter().map(load).collect(),
            faults: Vec::new(),
            autoscaler: None,
            racks: Vec::new(),
            measure: sim::Measure { warmup, window },
            paranoid: false,
        };
        let report = sim::run(scenario)?;
        let broken = &report.violations;
        ensure!(broken.is_empty(), "the simulation broke its own rules: {}", broken.join("; "));
        Ok((report, context))
    }
}

/// From `start` to the last request: requests that wait are sent later than they were recorded.
fn until_the_last(report: &sim::Report, start: Time) -> Duration {
    let last = report.requests.iter().map(|request| request.sent).max();
    last.map_or(report.window, |last| last.since(start)).max(Duration::from_millis(1))
}

fn load(stream: &Stream) -> sim::Load {
    let programs = stream.programs.clone();
    let each = (0..programs.len()).map(move |at| programs[at].clone());
    let source = sim::Source::Open(Box::new(each));
    sim::Load { region: stream.region, source, may_run_in: stream.may.clone() }
}
