//! A load of the experiment as questions for the search.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use meridian_routing::HeldConfig;
use meridian_tools::generator;
use meridian_tools::rule::Rule;
use meridian_workload::trace::find_excerpt;
use meridian_workload::{Diurnal, Generator};

use crate::experiment::catalogue::catalogue;
use crate::experiment::skywalker_load::by_hour;
use crate::experiment::spec::{Capacity, CapacityLoad, Measure, Regions, Topology};
use crate::what_if::{
    Arrangement, Cut, Gpus, Made, Places, Prices, Question, Source, TraceFile, Traffic,
};

/// Seconds that a request may wait in a gateway: longer than any objective, so that policies that
/// queue there are judged by the same times as those that queue in engines.
const MOST_WAIT: Duration = Duration::from_secs(3600);
/// Requests that may wait in a gateway.
const MOST_HELD: u32 = 1 << 20;

/// A load, resolved.
pub(super) struct Load {
    pub(super) name: String,
    pub(super) equal: bool,
    pub(super) spec: CapacityLoad,
    pub(super) generator: Option<Arc<dyn Generator>>,
    set: Regions,
    /// Each region's share of the traffic and of the replicas.
    shares: Vec<(f64, f64)>,
    day: Option<Diurnal>,
    measure: Measure,
}

impl Load {
    pub(super) fn new(spec: &CapacityLoad, measure: Measure) -> anyhow::Result<Load> {
        let set = spec.regions.resolve(&catalogue().regions, |r| &r.name, "regions")?;
        let generator = spec.generator.as_ref().map(generator::build).transpose();
        let generator = generator.map_err(|errors| anyhow!(errors.join("; ")))?;
        ensure!(
            generator.is_some() != spec.trace.is_some(),
            "generator: give either a generator with a rate, or a trace"
        );
        let regions = set.regions.len();
        let day = match &spec.share {
            Some(_) => None,
            None => Some(Diurnal { day: measure.window.0, ..Diurnal::published() }),
        };
        let shares: Vec<(f64, f64)> = match (&spec.share, &day) {
            (Some(shares), _) => {
                shares.iter().map(|share| (*share, if spec.equal { 1.0 } else { *share })).collect()
            }
            (None, day) => {
                ensure!(
                    generator.is_some(),
                    "share: missing; give each region's share of the trace"
                );
                day.iter().flat_map(by_peak).collect()
            }
        };
        ensure!(
            shares.len() == regions,
            "share: {} of {regions} regions; give one for each, or five regions for a day",
            shares.len()
        );
        let bad = shares.iter().map(|(share, _)| *share).find(|s| !(*s > 0.0 && s.is_finite()));
        if let Some(bad) = bad {
            bail!("share: {bad} is not a share; use numbers above 0");
        }
        let (name, equal, spec) = (spec.name.clone(), spec.equal, spec.clone());
        Ok(Load { name, equal, spec, generator, set, shares, day, measure })
    }

    /// The number of regions.
    pub(super) fn regions(&self) -> usize {
        self.set.regions.len()
    }

    /// The least fleets of all policies, with all regions or with one alone.
    pub(super) fn question(
        &self,
        asked: &Capacity,
        topology: &Topology,
        alone: Option<usize>,
        seed: u64,
    ) -> anyhow::Result<Question> {
        let places = Places::of(&self.set, self.shares.iter().copied(), topology)?;
        let places = alone.map_or(places.clone(), |region| places.alone(region));
        let named = |name: &String| Rule::given(name).context("capacity.policies");
        let mut question = Question {
            traffic: self.traffic()?,
            places,
            gpus: self.spec.gpu.parse::<Gpus>().map_err(|e| anyhow!("gpu: {e}"))?,
            tp: 1,
            model: self.spec.model.clone(),
            sizes: Vec::new(),
            policies: asked.policies.iter().map(named).collect::<Result<_, _>>()?,
            arrangements: vec![Arrangement::Whole],
            kv_gbps: 100.0,
            slo: self.spec.slo,
            prices: Prices::default(),
            held: HeldConfig {
                max: MOST_HELD,
                max_per_tenant: MOST_HELD,
                max_wait: MOST_WAIT,
                ..HeldConfig::default()
            },
            warmup: self.measure.warmup.0,
            most: asked.most,
            first_seed: seed,
            seeds: 1,
            each_region: true,
        };
        question.sizes = vec![question.fewest(Arrangement::Whole)];
        Ok(question)
    }

    fn traffic(&self) -> anyhow::Result<Traffic> {
        let length = self.measure.warmup.0 + self.measure.window.0;
        let (source, requests) = match (&self.generator, &self.spec.trace) {
            (Some(generator), _) => {
                let rate = self.spec.rate.context("rate: missing; give requests a second")?;
                let name = self.spec.generator.as_ref().map_or("", |named| &named.name);
                let generator = generator.clone();
                let made = match &self.day {
                    Some(day) => Made::day(generator, name, rate, day.clone())?,
                    None => Made::poisson(generator, name, rate)?,
                };
                (Source::Made(made), (rate * length.as_secs_f64()) as u64)
            }
            (None, Some(name)) => (recorded(name), u64::from(MOST_HELD)),
            (None, None) => unreachable!("one of them is given"),
        };
        let cut = Cut {
            after: Duration::ZERO,
            before: Some(length),
            speed: 1.0,
            spread: self.spec.spread.0,
            sessions_beyond: Some(1),
            chained: false,
            requests,
        };
        Traffic::read(source, &cut)
    }
}

/// An excerpt by its name, or else a file.
fn recorded(name: &str) -> Source {
    match find_excerpt(name) {
        Some(excerpt) => Source::Excerpt(excerpt),
        None => Source::File(TraceFile {
            path: PathBuf::from(name),
            format: None,
            block_tokens: None,
            lenient: false,
        }),
    }
}

/// Each region's mean and peak.
fn by_peak(day: &Diurnal) -> Vec<(f64, f64)> {
    let region = |at: usize| {
        let hours = by_hour(|hour| day.rate(at, hour));
        let mean = hours.iter().sum::<f64>() / hours.len() as f64;
        (mean, hours.iter().copied().fold(0.0, f64::max))
    };
    (0..day.regions.len()).map(region).collect()
}
