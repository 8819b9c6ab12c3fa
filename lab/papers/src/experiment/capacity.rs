//! The least fleet for a load and an objective, by policy and topology, with its price.
//!
//! The search is that of [`crate::what_if`], once for each seed, so that the sizes have intervals.
//! With regions by themselves, each region is searched alone. With regions together, the replicas
//! are shared out by the regions' peaks, and the requests of every region must meet the objective:
//! a saving at the expense of one region does not count.

mod load;

use anyhow::{Context as _, ensure};

use super::spec::{Capacity, Measure, Topology};
use super::values::{self, Values};
use super::{Context, Findings, build, params, price};
use crate::what_if::{self, Found, Row};
use load::Load;

/// The experiment.
///
/// # Errors
/// If the file is invalid, or a plot can't be drawn.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let asked = asked(context)?;
    let measure = if context.quick { context.spec.quick.measure } else { context.spec.measure };
    let loads: Vec<Load> = asked
        .loads
        .iter()
        .map(|load| {
            Load::new(load, measure).with_context(|| format!("capacity.loads ({})", load.name))
        })
        .collect::<Result<_, _>>()?;
    let mut searched = Vec::new();
    for load in &loads {
        for topology in &asked.topologies {
            searched.extend(search(context, &asked, load, topology)?);
        }
    }
    let values = Values { rows: searched.iter().map(Searched::row).collect() };
    let params = hash(&asked, measure, &loads);
    let mut found = Findings::computed(&context.spec, values, params)?;
    for (row, one) in found.rows.iter_mut().zip(&searched) {
        row["topology"] = one.topology.into();
        row["policy"] = one.policy.as_str().into();
    }
    found.windows = loads.iter().map(|load| (load.name.clone(), measure)).collect();
    found.legend = LEGEND.map(str::to_owned).to_vec();
    Ok(found)
}

/// The columns of the tables.
const LEGEND: [&str; 6] = [
    "replicas: the least fleet, in the mean of the seeds, with the interval",
    "USD/h: its price, by the shipped on-demand prices",
    "saved: compared with the same policy in region_local, %",
    "SLO met: requests that met the objective, of the region with the fewest, %",
    "P90 TTFT: of the least fleet; in region_local of the slowest region",
    "-: under a seed no fleet is large enough",
];

/// The part of the file that runs; in the small variant a part of it.
fn asked(context: &Context<'_>) -> anyhow::Result<Capacity> {
    let mut asked = context.spec.capacity.clone().context("capacity: missing; give loads")?;
    let all = [asked.policies.len(), asked.topologies.len(), asked.loads.len()];
    ensure!(!all.contains(&0), "capacity: a list is empty; give policies, topologies and loads");
    let quick = &context.spec.quick;
    if context.quick {
        asked.policies.retain(|name| quick.systems.is_empty() || quick.systems.contains(name));
        asked
            .loads
            .retain(|load| quick.workloads.is_empty() || quick.workloads.contains(&load.name));
        asked
            .loads
            .iter_mut()
            .for_each(|load| load.rate = load.rate.map(|rate| rate * quick.share));
    }
    Ok(asked)
}

/// The least fleets of a policy, by seed.
struct Searched {
    load: String,
    policy: String,
    topology: &'static str,
    /// `None` where no fleet is large enough.
    fleets: Vec<Option<CapacityFleet>>,
}

impl Searched {
    /// The fleets as a row whose fleet is the topology.
    fn row(&self) -> values::Row {
        let of = |get: fn(&CapacityFleet) -> Option<f64>| -> Vec<Option<f64>> {
            self.fleets.iter().map(|fleet| get(fleet.as_ref()?)).collect()
        };
        values::Row::new(&self.policy, &self.load, self.topology)
            .with_seeds("replicas", of(|fleet| Some(fleet.replicas)))
            .with_seeds("usd_per_hour", of(|fleet| fleet.usd_per_hour))
            .with_seeds("slo_attainment", of(|fleet| Some(fleet.met)))
            .with_seeds("ttft_ms.p90", of(|fleet| Some(fleet.ttft_p90)))
            .with_seeds("forwarded_ratio", of(|fleet| Some(fleet.forwarded)))
    }
}

/// A fleet that meets the objective.
#[derive(Clone, Copy)]
struct CapacityFleet {
    replicas: f64,
    usd_per_hour: Option<f64>,
    /// The share of the requests that met the objective, in the region with the smallest.
    met: f64,
    ttft_p90: f64,
    forwarded: f64,
}

impl CapacityFleet {
    fn of(row: &Row) -> CapacityFleet {
        CapacityFleet {
            replicas: f64::from(row.replicas),
            usd_per_hour: row.usd_per_hour(),
            met: row.met_least,
            ttft_p90: row.ttft_ms.map_or(f64::NAN, |ttft| ttft.p90),
            forwarded: row.forwarded,
        }
    }

    /// The fleets of regions by themselves as one: of all of them, or of as many as the largest.
    fn together(all: &[CapacityFleet], equal: bool) -> Option<CapacityFleet> {
        let sum = |of: fn(&CapacityFleet) -> f64| match equal {
            true => all.iter().map(of).fold(0.0, f64::max) * all.len() as f64,
            false => all.iter().map(of).sum(),
        };
        let priced = all.iter().all(|one| one.usd_per_hour.is_some());
        Some(CapacityFleet {
            replicas: sum(|one| one.replicas),
            usd_per_hour: priced.then(|| sum(|one| one.usd_per_hour.unwrap_or(0.0))),
            met: all.iter().map(|one| one.met).reduce(f64::min)?,
            ttft_p90: all.iter().map(|one| one.ttft_p90).fold(0.0, f64::max),
            forwarded: 0.0,
        })
    }
}

/// The least fleets of every policy in a topology.
fn search(
    context: &Context<'_>,
    asked: &Capacity,
    load: &Load,
    topology: &Topology,
) -> anyhow::Result<Vec<Searched>> {
    let mut by_policy: Vec<Vec<Option<CapacityFleet>>> = vec![Vec::new(); asked.policies.len()];
    let name = build::topology_name(topology);
    for seed in context.spec.first_seed..context.spec.first_seed + u64::from(context.seeds) {
        let question = |alone| load.question(asked, topology, alone, seed);
        let least = |alone| -> anyhow::Result<Vec<Option<CapacityFleet>>> {
            let report = |done: usize, what: &str| {
                (context.progress)(done, done, &format!("{}, {name}: {what}", load.name));
            };
            let answer = what_if::answer(&question(alone)?, &report)?;
            let found = |least: &what_if::Least| match &least.found {
                Found::Fleet(row) => Some(CapacityFleet::of(row)),
                Found::NoneUpTo(_) => None,
            };
            Ok(answer.least.iter().map(found).collect())
        };
        let fleets = match topology {
            Topology::RegionLocal => {
                let regions: Vec<Vec<Option<CapacityFleet>>> = (0..load.regions())
                    .map(|region| least(Some(region)))
                    .collect::<Result<_, _>>()?;
                let of = |policy: usize| {
                    let all: Option<Vec<CapacityFleet>> =
                        regions.iter().map(|by| by[policy]).collect();
                    CapacityFleet::together(&all?, load.equal)
                };
                (0..asked.policies.len()).map(of).collect()
            }
            _ => least(None)?,
        };
        by_policy.iter_mut().zip(fleets).for_each(|(all, fleet)| all.push(fleet));
    }
    let searched = |(policy, fleets): (&String, Vec<Option<CapacityFleet>>)| Searched {
        load: load.name.clone(),
        policy: policy.clone(),
        topology: name,
        fleets,
    };
    Ok(asked.policies.iter().zip(by_policy).map(searched).collect())
}

/// Loads, the window and prices; not the policies, as in other experiments.
fn hash(asked: &Capacity, measure: Measure, loads: &[Load]) -> String {
    let prices: Vec<_> = asked.loads.iter().map(|load| price::usd_per_hour(&load.gpu)).collect();
    let generators =
        params::of_generators(loads.iter().filter_map(|load| load.generator.as_deref()));
    params::of_text(&format!("{:?} {measure:?} {prices:?} {generators}", asked.loads))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(replicas: f64) -> CapacityFleet {
        let usd_per_hour = Some(0.38 * replicas);
        CapacityFleet { replicas, usd_per_hour, met: 0.9, ttft_p90: 100.0, forwarded: 0.0 }
    }

    // Regions by themselves add up; if each is the busiest in turn, all are as large as the largest.
    #[test]
    fn regions_add_up() {
        let regions = [5.0, 2.0, 1.0].map(fleet);
        let replicas = |equal| CapacityFleet::together(&regions, equal).map(|one| one.replicas);
        assert_eq!([replicas(false), replicas(true)], [Some(8.0), Some(15.0)]);
    }
}
