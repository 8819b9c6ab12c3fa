//! Requests of a generator, which arrive at random: by a Poisson process, by the rates of ServeGen's
//! clients, or by the days of several regions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_base::{Time, mix};
use meridian_tools::trace_file;
use meridian_workload::trace::ServeGenReader;
use meridian_workload::{
    Arrival, Diurnal, Generator, Poisson, Program, ServeGen, Step, open_loop, servegen_steps,
};

use super::places::Places;
use super::traffic::Sent;

/// A window of ServeGen's rates, in seconds.
const WINDOW_S: f64 = 600.0;

/// A generator and its arrivals.
pub struct Made {
    /// The generator.
    pub generator: Arc<dyn Generator>,
    /// Its name.
    pub name: String,
    /// Requests a second in all regions together, in the mean.
    pub rate: f64,
    rhythm: Rhythm,
}

/// How the rate changes.
enum Rhythm {
    /// Not at all.
    Even,
    /// As that of recorded clients.
    Clients(Rates),
    /// As the day of each region.
    Day(Diurnal),
}

/// Clients with their rates.
struct Rates {
    file: String,
    clients: Vec<(u32, Vec<Step>)>,
    period_s: f64,
    mean: f64,
    /// The part of the period that is simulated.
    from: Duration,
    to: Option<Duration>,
}

impl Made {
    /// Random arrivals.
    ///
    /// # Errors
    /// When the rate is not above 0.
    pub fn poisson(generator: Arc<dyn Generator>, name: &str, rate: f64) -> anyhow::Result<Made> {
        ensure!(
            rate > 0.0 && rate.is_finite(),
            "rate: {rate} is not a rate; use requests a second above 0"
        );
        Ok(Made { generator, name: name.to_owned(), rate, rhythm: Rhythm::Even })
    }

    /// Arrivals by the days of several regions, which are those of the question, in their order.
    ///
    /// # Errors
    /// When the rate, of all of them in the mean of a day, is not above 0.
    pub fn day(
        generator: Arc<dyn Generator>,
        name: &str,
        rate: f64,
        day: Diurnal,
    ) -> anyhow::Result<Made> {
        Ok(Made { rhythm: Rhythm::Day(day), ..Made::poisson(generator, name, rate)? })
    }

    /// Arrivals of the clients in a file of ServeGen, from `after` to `before`; without a rate, at the
    /// recorded one.
    ///
    /// # Errors
    /// When the file can't be read or has no rates, or the rate is not above 0.
    pub fn servegen(
        generator: Arc<dyn Generator>,
        name: &str,
        rate: Option<f64>,
        path: &Path,
        (after, before): (Duration, Option<Duration>),
    ) -> anyhow::Result<Made> {
        let file = path.display().to_string();
        let input = trace_file::open(path).with_context(|| format!("cannot open {file}"))?;
        let rows = ServeGenReader::new(input).collect::<Result<Vec<_>, _>>();
        let mut clients = servegen_steps(rows.with_context(|| file.clone())?);
        let ends =
            clients.iter().filter_map(|(_, steps)| steps.last()).map(|s| s.start_s + WINDOW_S);
        let period_s = ends.fold(0.0, f64::max);
        ensure!(period_s > 0.0, "{file}: there are no rates in it; use rows of clients");
        let mut requests = 0.0;
        for (_, steps) in &mut clients {
            requests += steps.iter().map(|step| step.per_second * WINDOW_S).sum::<f64>();
            let start_s = steps.last().map_or(0.0, |step| step.start_s + WINDOW_S);
            if let Some(last) = steps.last().copied().filter(|_| start_s < period_s) {
                steps.push(Step { start_s, per_second: 0.0, ..last });
            }
        }
        let mean = requests / period_s;
        ensure!(mean > 0.0, "{file}: all rates are 0; use rows with a rate");
        let made = Made::poisson(generator, name, rate.unwrap_or(mean))?;
        let rates = Rates { file, clients, period_s, mean, from: after, to: before };
        Ok(Made { rhythm: Rhythm::Clients(rates), ..made })
    }

    /// What it is, in words.
    pub(super) fn words(&self) -> String {
        let Made { name, rate, .. } = self;
        match &self.rhythm {
            Rhythm::Even => format!("{rate} requests a second of the generator {name}"),
            Rhythm::Clients(rates) => format!(
                "{rate:.3} requests a second of the generator {name}, in the rhythm of {}",
                rates.file
            ),
            Rhythm::Day(day) => format!(
                "{rate:.3} requests a second of the generator {name}, by the day of each region \
                 within {:?}",
                day.day
            ),
        }
    }

    /// The first programs of all regions together that have `most` requests.
    pub(super) fn sent(&self, places: &Places, seed: u64, most: u64) -> anyhow::Result<Sent> {
        let shares = places.traffic().context(
            "regions: a generator's requests have no regions; give each region its share with `traffic`",
        )?;
        let mut regions: Vec<_> =
            shares.iter().enumerate().map(|(at, share)| self.start(at, *share, seed)).collect();
        let mut first: Vec<_> = regions.iter_mut().map(Iterator::next).collect();
        let at = |first: &[Option<(Time, Program)>], region: usize| {
            first[region].as_ref().map(|(at, _)| Reverse((*at, region)))
        };
        let mut next: BinaryHeap<_> = (0..first.len()).filter_map(|r| at(&first, r)).collect();
        let (mut all, mut requests) = (Vec::new(), 0);
        while let Some(Reverse((_, region))) = next.pop().filter(|_| requests < most) {
            let Some((start, program)) =
                std::mem::replace(&mut first[region], regions[region].next())
            else {
                continue;
            };
            next.extend(at(&first, region));
            requests += program.nodes.len() as u64;
            let rules = places.rules.matching(region, program.tenant, None);
            all.push(((region, rules), (start, program)));
        }
        ensure!(!all.is_empty(), "{}", self.nothing());
        Ok(Sent::of(places, all.into_iter()))
    }

    /// Why no request arrives, in words.
    fn nothing(&self) -> String {
        match &self.rhythm {
            Rhythm::Clients(Rates { file, .. }) => format!(
                "{file}: at {:?} a second no request arrives between --after and --before; use a \
                 higher --rate, or another part",
                self.rate
            ),
            Rhythm::Even | Rhythm::Day(_) => {
                format!("rate: with {:?} a second no request arrives; use a higher rate", self.rate)
            }
        }
    }

    /// The programs of a region that has this share of the requests.
    fn start(
        &self,
        region: usize,
        share: f64,
        seed: u64,
    ) -> Box<dyn Iterator<Item = (Time, Program)> + Send> {
        let own = mix(seed, region as u64);
        let programs = self.rate * share / self.generator.mean_requests().max(1.0);
        let (generator, region) = (self.generator.clone(), region as u32);
        let rates = match &self.rhythm {
            Rhythm::Even => {
                return Box::new(open_loop(generator, Poisson::new(own, programs), seed, region));
            }
            Rhythm::Day(day) => {
                let all = self.rate / generator.mean_requests().max(1.0);
                let arrivals = day.arrivals(seed, region as usize, all);
                return Box::new(open_loop(generator, arrivals, seed, region));
            }
            Rhythm::Clients(rates) => rates,
        };
        let scale = programs / rates.mean;
        let (from, to) = (rates.from, rates.to.unwrap_or(Duration::MAX));
        let all = ServeGen::new(own, rates.clients.clone(), rates.period_s, scale);
        let part = all.skip_while(move |arrival| arrival.at < from);
        let part = part.take_while(move |arrival| arrival.at < to);
        let moved = part.map(move |arrival| Arrival { at: arrival.at - from, ..arrival });
        Box::new(open_loop(generator, moved, seed, region))
    }
}
