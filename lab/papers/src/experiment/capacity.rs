//! The least fleet for a load and an objective, by policy and topology, with its price.
//!
//! The search is that of [`crate::what_if`], once for each seed, so that the sizes have intervals.
//! With regions by themselves, each region is searched alone. With regions together, the replicas
//! are shared out by the regions' peaks, and the requests of every region must meet the objective:
//! a saving at the expense of one region does not count.

mod load;
mod show;

use anyhow::{Context as _, ensure};
use meridian_tools::stats;

use super::claim::{Claim, Verdict};
use super::spec::{Capacity, Measure, Saving, Topology};
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
    Ok(Findings {
        rows: searched.iter().map(show::row).collect(),
        tables: loads.iter().map(|load| show::table(load, &searched)).collect(),
        claims: asked.published.iter().map(|saving| claim(saving, &searched)).collect(),
        figures: loads
            .iter()
            .map(|load| show::figure(load, &searched))
            .collect::<Result<_, _>>()?,
        windows: loads.iter().map(|load| (load.name.clone(), measure)).collect(),
        legend: show::legend(),
        params: hash(&asked, measure, &loads),
        ..Findings::default()
    })
}

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
    for saving in &asked.published {
        let known = asked.loads.iter().any(|load| load.name == saving.load);
        ensure!(
            known || context.quick,
            "capacity.published: `{}` is not a load; name one of them",
            saving.load
        );
    }
    Ok(asked)
}

/// The least fleets of a policy, by seed.
struct Searched {
    load: String,
    policy: String,
    topology: &'static str,
    /// `None` where no fleet is large enough.
    fleets: Vec<Option<Fleet>>,
}

/// A fleet that meets the objective.
#[derive(Clone, Copy)]
struct Fleet {
    replicas: f64,
    usd_per_hour: Option<f64>,
    /// The share of the requests that met the objective, in the region with the smallest.
    met: f64,
    ttft_p90: f64,
    forwarded: f64,
}

impl Fleet {
    fn of(row: &Row) -> Fleet {
        Fleet {
            replicas: f64::from(row.replicas),
            usd_per_hour: row.usd_per_hour(),
            met: row.met_least,
            ttft_p90: row.ttft_ms.map_or(f64::NAN, |ttft| ttft.p90),
            forwarded: row.forwarded,
        }
    }

    /// The fleets of regions by themselves as one: of all of them, or of as many as the largest.
    fn together(all: &[Fleet], equal: bool) -> Option<Fleet> {
        let sum = |of: fn(&Fleet) -> f64| match equal {
            true => all.iter().map(of).fold(0.0, f64::max) * all.len() as f64,
            false => all.iter().map(of).sum(),
        };
        let priced = all.iter().all(|one| one.usd_per_hour.is_some());
        Some(Fleet {
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
    let mut by_policy: Vec<Vec<Option<Fleet>>> = vec![Vec::new(); asked.policies.len()];
    let name = build::topology_name(topology);
    for seed in context.spec.first_seed..context.spec.first_seed + u64::from(context.seeds) {
        let question = |alone| load.question(asked, topology, alone, seed);
        let least = |alone| -> anyhow::Result<Vec<Option<Fleet>>> {
            let report = |done: usize, what: &str| {
                (context.progress)(done, done, &format!("{}, {name}: {what}", load.name));
            };
            let answer = what_if::answer(&question(alone)?, &report)?;
            let found = |least: &what_if::Least| match &least.found {
                Found::Fleet(row) => Some(Fleet::of(row)),
                Found::NoneUpTo(_) => None,
            };
            Ok(answer.least.iter().map(found).collect())
        };
        let fleets = match topology {
            Topology::RegionLocal => {
                let regions: Vec<Vec<Option<Fleet>>> = (0..load.regions())
                    .map(|region| least(Some(region)))
                    .collect::<Result<_, _>>()?;
                let of = |policy: usize| {
                    let all: Option<Vec<Fleet>> = regions.iter().map(|by| by[policy]).collect();
                    Fleet::together(&all?, load.equal)
                };
                (0..asked.policies.len()).map(of).collect()
            }
            _ => least(None)?,
        };
        by_policy.iter_mut().zip(fleets).for_each(|(all, fleet)| all.push(fleet));
    }
    let searched = |(policy, fleets): (&String, Vec<Option<Fleet>>)| Searched {
        load: load.name.clone(),
        policy: policy.clone(),
        topology: name,
        fleets,
    };
    Ok(asked.policies.iter().zip(by_policy).map(searched).collect())
}

/// The share of its cost that each seed saves over the same policy in regions by themselves.
fn savings(searched: &Searched, all: &[Searched]) -> Vec<f64> {
    let alone = |other: &&Searched| {
        other.load == searched.load
            && other.policy == searched.policy
            && other.topology == "region_local"
    };
    let Some(alone) = all.iter().find(alone) else { return Vec::new() };
    let cost = |of: &Searched| -> Vec<Option<f64>> {
        of.fleets.iter().map(|fleet| fleet.as_ref()?.usd_per_hour).collect()
    };
    stats::paired(&cost(searched), &cost(alone), |together, apart| 1.0 - together / apart)
}

fn claim(saving: &Saving, searched: &[Searched]) -> Claim {
    let two_layer = |one: &&Searched| {
        one.load == saving.load
            && saving.policies.contains(&one.policy)
            && one.topology == "two_layer"
    };
    let ours: Vec<f64> = searched
        .iter()
        .filter(two_layer)
        .filter_map(|one| stats::median(&savings(one, searched)))
        .collect();
    let ends = ours.iter().copied().reduce(f64::min).zip(ours.iter().copied().reduce(f64::max));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    Claim {
        what: saving.what.clone(),
        source: saving.source.clone(),
        published: percent(saving.value),
        ours: match ends {
            None => "-".to_owned(),
            Some((low, high)) if low == high => percent(low),
            Some((low, high)) => format!("{} to {}", percent(low), percent(high)),
        },
        counts: ours.iter().map(|v| Verdict::of_difference([saving.value; 2], *v)).collect(),
    }
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

    fn fleet(replicas: f64) -> Fleet {
        let usd_per_hour = Some(0.38 * replicas);
        Fleet { replicas, usd_per_hour, met: 0.9, ttft_p90: 100.0, forwarded: 0.0 }
    }

    // Regions by themselves add up; if each is the busiest in turn, all are as large as the largest.
    #[test]
    fn regions_add_up() {
        let regions = [5.0, 2.0, 1.0].map(fleet);
        let replicas = |equal| Fleet::together(&regions, equal).map(|one| one.replicas);
        assert_eq!([replicas(false), replicas(true)], [Some(8.0), Some(15.0)]);
    }

    // A saving compares a policy with itself; a seed without a fleet is left out.
    #[test]
    fn savings_pair_seeds() {
        let searched = |topology, fleets: &[Option<f64>]| Searched {
            load: "day".to_owned(),
            policy: "meridian".to_owned(),
            topology,
            fleets: fleets.iter().map(|size| size.map(fleet)).collect(),
        };
        let all = [
            searched("region_local", &[Some(20.0), Some(10.0), None]),
            searched("two_layer", &[Some(12.0), Some(8.0), Some(9.0)]),
        ];
        let found = savings(&all[1], &all);
        assert_eq!(found.len(), 2);
        assert!((found[0] - 0.4).abs() < 1e-9 && (found[1] - 0.2).abs() < 1e-9, "{found:?}");
        let saving = Saving {
            what: "saved".to_owned(),
            source: "Fig. 3".to_owned(),
            load: "day".to_owned(),
            policies: vec!["meridian".to_owned()],
            value: 0.405,
        };
        let claim = claim(&saving, &all);
        assert_eq!((claim.ours.as_str(), claim.verdict().as_str()), ("30.0 %", "same sign"));
    }
}
