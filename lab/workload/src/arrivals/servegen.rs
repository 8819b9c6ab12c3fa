//! The arrivals of a production service's busiest clients.
//!
//! ServeGen (arXiv 2505.09999) shows that a few clients dominate a service's load, each with its
//! own pattern: rates that change in steps, and different bursts. This file has the 20 busiest
//! clients of one of its models on one day (`data/servegen`, Apache-2.0); the day repeats. The
//! generator sets the lengths.

use std::collections::BTreeSet;
use std::time::Duration;

use meridian_base::mix;

use super::Arrival;
use super::gaps::Gaps;
use super::stepped::{Step, Stepped};
use crate::trace::{ServeGenRates, ServeGenReader};

const CLIENTS: &str = include_str!("../../data/servegen/m-large_top20_day1.csv");
const HOURLY: &str = include_str!("../../data/servegen/hourly.csv");
const DAY_S: f64 = 86_400.0;
const WINDOW_S: f64 = 600.0;

/// The shipped clients with their day in windows of ten minutes, the busiest first. A window
/// without requests has rate 0.
#[must_use]
pub fn servegen_clients() -> Vec<(u32, Vec<Step>)> {
    let rates = ServeGenReader::new(CLIENTS.as_bytes());
    let mut clients = servegen_steps(rates.map(|rate| rate.expect("the shipped file is tested")));
    for (_, steps) in &mut clients {
        let end_s = steps.last().map_or(0.0, |s| s.start_s + WINDOW_S);
        if end_s < DAY_S {
            steps.push(Step { start_s: end_s, per_second: 0.0, gaps: Gaps::Exponential });
        }
    }
    clients.sort_by(|a, b| mean(&b.1).total_cmp(&mean(&a.1)));
    clients
}

/// The steps of each client, for [`ServeGen::new`]. A client's rows are consecutive and ordered by
/// time, as in the publication; windows that it omits have rate 0. Only the family and shape of the
/// fitted gaps are used: the published scales do not always give the published rate.
#[must_use]
pub fn servegen_steps(rates: impl IntoIterator<Item = ServeGenRates>) -> Vec<(u32, Vec<Step>)> {
    let mut clients: Vec<(u32, Vec<Step>)> = Vec::new();
    for rate in rates {
        let gaps = match &*rate.dist {
            "Weibull" => Gaps::Weibull(rate.params[0]),
            _ => Gaps::Gamma(rate.params[0]),
        };
        if clients.last().is_none_or(|(last, _)| *last != rate.client) {
            clients.push((rate.client, Vec::new()));
        }
        let steps = &mut clients.last_mut().expect("one was pushed").1;
        let start_s = rate.window_start_s as f64;
        let end_s = steps.last().map_or(0.0, |s| s.start_s + WINDOW_S);
        if end_s < start_s {
            steps.push(Step { start_s: end_s, per_second: 0.0, gaps });
        }
        steps.push(Step { start_s, per_second: rate.rate_rps, gaps });
    }
    clients
}

/// Mean requests a second of each of 336 hours, over all clients of the two shipped models (large,
/// mid): as steps of a Poisson process.
#[must_use]
pub fn servegen_hourly() -> [Vec<Step>; 2] {
    [1, 2].map(|column| {
        let hour = |(hour, line): (usize, &str)| Step {
            start_s: hour as f64 * 3600.0,
            per_second: line.split(',').nth(column).and_then(|x| x.parse().ok()).unwrap_or(0.0),
            gaps: Gaps::Exponential,
        };
        HOURLY.lines().skip(1).enumerate().map(hour).collect()
    })
}

/// Arrivals of several clients, merged.
#[derive(Clone, Debug)]
pub struct ServeGen {
    clients: Vec<(u32, Stepped)>,
    /// The next arrival of each client, by its index in the list.
    next: BTreeSet<(Duration, usize)>,
}

impl ServeGen {
    /// The `count` busiest shipped clients, with `per_second` arrivals in total in the mean of the
    /// day.
    #[must_use]
    pub fn busiest(seed: u64, count: usize, per_second: f64) -> ServeGen {
        let mut clients = servegen_clients();
        clients.truncate(count);
        let sum: f64 = clients.iter().map(|(_, steps)| mean(steps)).sum();
        ServeGen::new(seed, clients, DAY_S, per_second / sum)
    }

    /// `clients` by number, each with its steps of a period of `period_s`, at `scale` times their
    /// rates.
    #[must_use]
    pub fn new(seed: u64, clients: Vec<(u32, Vec<Step>)>, period_s: f64, scale: f64) -> ServeGen {
        let start = |(client, steps)| {
            (client, Stepped::new(mix(seed, u64::from(client)), steps, period_s, scale))
        };
        let mut clients: Vec<(u32, Stepped)> = clients.into_iter().map(start).collect();
        let first = |(i, (_, arrivals)): (usize, &mut (u32, Stepped))| Some((arrivals.next()?, i));
        let next = clients.iter_mut().enumerate().filter_map(first).collect();
        ServeGen { clients, next }
    }
}

impl Iterator for ServeGen {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let (at, i) = self.next.pop_first()?;
        let (client, arrivals) = &mut self.clients[i];
        self.next.extend(arrivals.next().map(|next| (next, i)));
        Some(Arrival { at, client: *client })
    }
}

/// Mean rate over a day of `steps`.
fn mean(steps: &[Step]) -> f64 {
    let ends = steps.iter().skip(1).map(|s| s.start_s).chain([DAY_S]);
    steps.iter().zip(ends).map(|(s, end)| s.per_second * (end - s.start_s)).sum::<f64>() / DAY_S
}
