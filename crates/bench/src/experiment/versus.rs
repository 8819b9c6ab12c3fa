//! Ours against the field: every policy in every topology on every workload.
//!
//! The file names what is compared besides: systems that were tuned (the tuned ones are what ours
//! must beat) and the oracle's settings. The published defaults of every policy in every topology
//! are added here, from the registry, so that a new policy is in the comparison by being there.
//!
//! A metric of ours is first, or within 1 % of first, or behind; the table says by how much and
//! whom. A system that leaves requests unanswered is no competitor on that workload: what it did
//! not answer is missing from its latencies. The oracle of a metric is the best of its own settings
//! and of every system, so nobody beats it; the distance to it is what is left to gain.

use std::collections::BTreeMap;

use meridian_routing::policy;
use meridian_wire::config::{Policy, Probe};

use super::cells::{findings, simulate};
use super::claim::{self, Claim};
use super::grid::Grid;
use super::metric;
use super::plan::Plan;
use super::spec::{Digests, Ref, System, Topology};
use super::table::Table;
use super::{Context, Findings, build, spec};

/// Compared metrics; of the first the most is best, of the others the least.
const METRICS: [&str; 9] = [
    "throughput_rps",
    "ttft_ms.mean",
    "ttft_ms.p50",
    "ttft_ms.p90",
    "ttft_ms.p99",
    "e2e_ms.mean",
    "e2e_ms.p50",
    "e2e_ms.p90",
    "e2e_ms.p99",
];
/// A system that answers less than this share of what is sent does not compete.
const ANSWERED: f64 = 0.995;
/// A difference this small is none.
const SAME: f64 = 0.01;
/// Our default.
const OURS: &str = "meridian";

/// Runs the comparison.
///
/// # Errors
/// What is wrong with the YAML.
pub(super) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut spec = context.spec.clone();
    if !context.quick {
        spec.systems.extend(cross());
    }
    let plan = Plan::new(&spec, context.quick)?;
    let grid = simulate(context, &plan)?;
    let mut found = findings(context, &grid)?;
    let marks: Vec<Mark> = grid.groups().iter().flat_map(|group| marks(&grid, group)).collect();
    let mut tables = vec![summary(&marks), behind(&marks)];
    tables.extend(grid.groups().iter().map(|group| distance(&grid, group)));
    tables.append(&mut found.tables);
    found.tables = tables;
    found.claims.push(verdict(&marks));
    Ok(found)
}

/// Every policy in every topology, with its published defaults.
fn cross() -> Vec<Ref<System>> {
    let topologies = [
        Topology::TwoLayer,
        Topology::Central("first".to_owned()),
        Topology::RegionLocal,
        Topology::Flat,
        Topology::Waterfall(0.8),
        Topology::Continent(0.8),
    ];
    let system = |policy: &'static policy::Spec, topology: &Topology| {
        Ref::Own(System {
            name: format!("{}@{}", policy.name, build::topology_name(topology)),
            policy: Policy { name: policy.name.to_owned(), params: BTreeMap::new() },
            admission: None,
            topology: topology.clone(),
            gateways: 1,
            probe: Probe::default(),
            held: spec::unbounded(),
            digests: Digests::default(),
        })
    };
    let each = |policy| topologies.iter().map(move |topology| system(policy, topology));
    policy::ALL.iter().flat_map(|policy| each(policy).collect::<Vec<_>>()).collect()
}

/// How ours stands on one metric of one workload and fleet, among one topology or among all.
struct Mark {
    at: String,
    metric: &'static str,
    topology: Option<String>,
    /// Ours over the best of the field, so that below 1 is better; for rates the inverse.
    ratio: f64,
    rival: String,
}

impl Mark {
    fn holds(&self) -> bool {
        self.ratio <= 1.0 + SAME
    }
}

fn is_ours(grid: &Grid<'_>, cell: usize) -> bool {
    let (system, policy, _) = &grid.plan.systems[grid.cells[cell].system];
    policy.name == OURS && !is_oracle(&system.topology)
}

fn is_oracle(topology: &Topology) -> bool {
    matches!(topology, Topology::Oracle(_))
}

fn topology<'a>(grid: &'a Grid<'_>, cell: usize) -> &'a Topology {
    &grid.plan.systems[grid.cells[cell].system].0.topology
}

fn answers(grid: &Grid<'_>, cell: usize) -> bool {
    let sum = |name| grid.named(cell, name).map_or(0.0, |m| m.mean);
    let sent = sum("requests") * grid.observed[cell].len() as f64;
    sum("lost") + sum("rejected") <= (1.0 - ANSWERED) * sent
}

/// A metric so that less is better.
fn cost(grid: &Grid<'_>, cell: usize, name: &str) -> Option<f64> {
    let value = grid.named(cell, name)?.mean;
    let more_is_better = name == METRICS[0];
    (value > 0.0).then(|| if more_is_better { 1.0 / value } else { value })
}

fn best(grid: &Grid<'_>, cells: &[usize], name: &str) -> Option<(f64, usize)> {
    let costs = cells.iter().filter_map(|cell| cost(grid, *cell, name).map(|c| (c, *cell)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Ours on every metric: in its own topology against the field of it, and at its best place
/// against everybody.
fn marks(grid: &Grid<'_>, group: &[usize]) -> Vec<Mark> {
    let compete = |cell: &usize| answers(grid, *cell) && !is_oracle(topology(grid, *cell));
    let field: Vec<usize> =
        group.iter().copied().filter(|c| compete(c) && !is_ours(grid, *c)).collect();
    let ours: Vec<usize> = group.iter().copied().filter(|c| is_ours(grid, *c)).collect();
    let place = format!(
        "{} on {}",
        grid.plan.workload(grid.cells[group[0]]),
        grid.plan.fleet(grid.cells[group[0]])
    );
    let mut marks = Vec::new();
    for own in &ours {
        let kind = topology(grid, *own);
        let same: Vec<usize> =
            field.iter().copied().filter(|c| topology(grid, *c) == kind).collect();
        let name = build::topology_name(kind);
        let mut against = vec![(same, Some(name.to_owned()))];
        if *kind == Topology::TwoLayer {
            against.push((field.clone(), None));
        }
        for (rivals, topology) in against {
            for metric in METRICS {
                let (Some(mine), Some((theirs, who))) =
                    (cost(grid, *own, metric), best(grid, &rivals, metric))
                else {
                    continue;
                };
                marks.push(Mark {
                    at: place.clone(),
                    metric,
                    topology: topology.clone(),
                    ratio: mine / theirs,
                    rival: grid.plan.system(grid.cells[who]).to_owned(),
                });
            }
        }
    }
    marks
}

fn summary(marks: &[Mark]) -> Table {
    let mut table = Table::new(
        "Ours against the best of the field: first or within 1 %",
        &["among", "of", "first or within 1 %", "worst", "median"],
    );
    let mut kinds: Vec<Option<&String>> = marks.iter().map(|m| m.topology.as_ref()).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let of: Vec<&Mark> = marks.iter().filter(|m| m.topology.as_ref() == kind).collect();
        let mut ratios: Vec<f64> = of.iter().map(|m| m.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        table.row([
            kind.map_or("everybody (ours: two_layer)", String::as_str).to_owned(),
            of.len().to_string(),
            of.iter().filter(|m| m.holds()).count().to_string(),
            format!("{:.3}", ratios[ratios.len() - 1]),
            format!("{:.3}", ratios[ratios.len() / 2]),
        ]);
    }
    table
}

/// Where ours is behind by more than 1 %.
fn behind(marks: &[Mark]) -> Table {
    let mut table = Table::new(
        "Where ours is behind by more than 1 %",
        &["workload", "among", "metric", "ours over best", "best"],
    );
    let mut worse: Vec<&Mark> = marks.iter().filter(|m| !m.holds()).collect();
    worse.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    for mark in worse {
        table.row([
            mark.at.clone(),
            mark.topology.clone().unwrap_or_else(|| "everybody".to_owned()),
            mark.metric.to_owned(),
            format!("{:.3}", mark.ratio),
            mark.rival.clone(),
        ]);
    }
    table
}

/// Ours, the best of the field and the oracle on one workload.
fn distance(grid: &Grid<'_>, group: &[usize]) -> Table {
    let cell = grid.cells[group[0]];
    let title = format!(
        "{} on {}: the distance to the oracle",
        grid.plan.workload(cell),
        grid.plan.fleet(cell)
    );
    let mut table = Table::new(
        title,
        &["metric", "ours", "best of the field", "who", "oracle", "ours over oracle"],
    );
    let answering: Vec<usize> = group.iter().copied().filter(|c| answers(grid, *c)).collect();
    let field: Vec<usize> = answering
        .iter()
        .copied()
        .filter(|c| !is_ours(grid, *c) && !is_oracle(topology(grid, *c)))
        .collect();
    let own = group
        .iter()
        .copied()
        .find(|c| is_ours(grid, *c) && *topology(grid, *c) == Topology::TwoLayer);
    for metric in METRICS {
        let (Some(own), Some((_, rival)), Some((least, oracle))) =
            (own, best(grid, &field, metric), best(grid, &answering, metric))
        else {
            continue;
        };
        let show = |cell: usize| {
            let value = grid.named(cell, metric).map_or(0.0, |m| m.mean);
            metric::find(metric).map_or(String::new(), |(_, m)| claim::number(m, value))
        };
        table.row([
            metric.to_owned(),
            show(own),
            show(rival),
            grid.plan.system(grid.cells[rival]).to_owned(),
            show(oracle),
            format!("{:.3}", cost(grid, own, metric).unwrap_or(f64::NAN) / least),
        ]);
    }
    table
}

fn verdict(marks: &[Mark]) -> Claim {
    let all: Vec<&Mark> = marks.iter().filter(|m| m.topology.is_none()).collect();
    let held = all.iter().filter(|m| m.holds()).count();
    let mut claim = Claim::about(
        "our default is first or within 1 % of first, every workload and metric",
        "the target",
        format!("{} of {}", all.len(), all.len()),
        format!("{held} of {}", all.len()),
        held == all.len(),
    );
    claim.agree = (held, all.len());
    claim
}
