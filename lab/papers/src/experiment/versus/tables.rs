//! The tables of the comparison.

use std::collections::BTreeMap;

use anyhow::bail;
use meridian_tools::metric;
use meridian_tools::table::Table;

use super::marks::{self, Mark};
use crate::experiment::compare::{self, METRICS};
use crate::experiment::grid::Grid;
use crate::experiment::plan::Plan;
use crate::experiment::spec::{Exception, Spec};
use crate::experiment::{build, claim};

/// The cause of a result that no exception in the file covers.
const UNKNOWN: &str = "not explained";

/// Checks that exceptions refer to existing items.
///
/// # Errors
///
/// Names that the plan lacks.
pub(super) fn check(spec: &Spec, plan: &Plan) -> anyhow::Result<()> {
    let workloads: Vec<&str> = plan.workloads.iter().map(|w| w.0.name.as_str()).collect();
    let fleets: Vec<&str> = plan.fleets.iter().map(|f| f.name.as_str()).collect();
    let mut topologies: Vec<&str> =
        plan.systems.iter().map(|s| build::topology_name(&s.0.topology)).collect();
    topologies.push("all");
    let policies: Vec<&str> = plan.systems.iter().map(|s| s.1.name).collect();
    let mut problems = Vec::new();
    for (i, exception) in spec.exceptions.iter().enumerate() {
        for (field, names, known) in [
            ("workloads", &exception.workloads, &workloads),
            ("fleets", &exception.fleets, &fleets),
            ("metrics", &exception.metrics, &METRICS.to_vec()),
            ("topologies", &exception.topologies, &topologies),
            ("rivals", &exception.rivals, &policies),
        ] {
            for name in names.iter().filter(|name| !known.contains(&name.as_str())) {
                let mut known = known.clone();
                known.sort_unstable();
                known.dedup();
                let known = known.join(", ");
                problems.push(format!(
                    "exceptions[{i}].{field}: `{name}` is unknown; use one of {known}"
                ));
            }
        }
    }
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(())
}

/// How often ours is first, near it, or behind, within each topology and within all.
pub(super) fn summary(marks: &[Mark], seeds: u32) -> Table {
    let mut table = Table::new(
        "Ours against the best of the field, by metric, workload and fleet",
        &["among", "of", "first", "first or within 1 %", "behind", "surely", "worst", "median"],
    );
    let mut kinds: Vec<Option<&str>> = marks.iter().map(|m| m.topology).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let of: Vec<&Mark> = marks.iter().filter(|m| m.topology == kind).collect();
        let count = |which: fn(&Mark) -> bool| of.iter().filter(|m| which(m)).count().to_string();
        let mut ratios: Vec<f64> = of.iter().map(|m| m.ratio.mean).collect();
        ratios.sort_by(f64::total_cmp);
        table.row([
            kind.unwrap_or("all (ours: two_layer)").to_owned(),
            of.len().to_string(),
            count(|m| m.ratio.mean <= 1.0),
            count(Mark::holds),
            count(|m| !m.holds()),
            if seeds > 1 { count(Mark::surely_behind) } else { "-".to_owned() },
            format!("{:.3}", ratios[ratios.len() - 1]),
            format!("{:.3}", ratios[ratios.len() / 2]),
        ]);
    }
    table
}

/// A workload and a fleet.
type TablesPlace<'a> = (&'a str, &'a str);

/// Ours in its own topology over the best of all systems, one row per workload, one column per
/// metric.
pub(super) fn by_workload(marks: &[Mark]) -> Table {
    let mut header = vec!["workload", "fleet", "first or within 1 %"];
    header.extend(METRICS);
    let mut table = Table::new("Ours over the best of all (below 1: ours is first)", &header);
    let mut rows: Vec<(TablesPlace<'_>, BTreeMap<&str, &Mark>)> = Vec::new();
    for mark in marks.iter().filter(|m| m.topology.is_none()) {
        let at = (mark.workload.as_str(), mark.fleet.as_str());
        if rows.last().is_none_or(|(place, _)| *place != at) {
            rows.push((at, BTreeMap::new()));
        }
        if let Some((_, row)) = rows.last_mut() {
            row.insert(mark.metric, mark);
        }
    }
    for ((workload, fleet), of) in rows {
        let held = of.values().filter(|m| m.holds()).count();
        let mut row =
            vec![workload.to_owned(), fleet.to_owned(), format!("{held} of {}", of.len())];
        row.extend(METRICS.iter().map(|metric| match of.get(metric) {
            Some(mark) => format!("{:.3}", mark.ratio.mean),
            None => "-".to_owned(),
        }));
        table.row(row);
    }
    table
}

/// The cause, according to the file.
fn cause<'a>(mark: &Mark, exceptions: &'a [Exception]) -> &'a str {
    let about = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let fits = |e: &&Exception| {
        about(&e.workloads, &mark.workload)
            && about(&e.fleets, &mark.fleet)
            && about(&e.metrics, mark.metric)
            && about(&e.topologies, mark.among())
            && about(&e.rivals, mark.policy)
    };
    exceptions.iter().find(fits).map_or(UNKNOWN, |e| e.cause.as_str())
}

/// The causes, by how much is behind because of them.
pub(super) fn by_cause(marks: &[Mark], exceptions: &[Exception]) -> Table {
    let mut table = Table::new(
        "Why ours is behind where it is",
        &["cause", "among all", "in one topology", "worst"],
    );
    let mut causes: BTreeMap<&str, Vec<&Mark>> = BTreeMap::new();
    for mark in marks.iter().filter(|m| !m.holds()) {
        causes.entry(cause(mark, exceptions)).or_default().push(mark);
    }
    let mut causes: Vec<(&str, Vec<&Mark>)> = causes.into_iter().collect();
    causes.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
    for (cause, of) in causes {
        let overall = of.iter().filter(|m| m.topology.is_none()).count();
        let worst = of.iter().map(|m| m.ratio.mean).fold(0.0, f64::max);
        table.row([
            cause.to_owned(),
            overall.to_string(),
            (of.len() - overall).to_string(),
            format!("{worst:.3}"),
        ]);
    }
    table
}

/// Where ours is behind by more than 1 %: over all topologies first, then by topology, the worst
/// first.
pub(super) fn behind(marks: &[Mark], exceptions: &[Exception], seeds: u32) -> Table {
    let mut table = Table::new(
        "Where ours is behind by more than 1 %",
        &[
            "among",
            "workload",
            "fleet",
            "metric",
            "ours over best",
            "interval",
            "best",
            "it pays with",
            "why",
        ],
    );
    let mut worse: Vec<&Mark> = marks.iter().filter(|m| !m.holds()).collect();
    worse.sort_by(|a, b| a.topology.cmp(&b.topology).then(b.ratio.mean.total_cmp(&a.ratio.mean)));
    for mark in worse {
        let interval = format!("{:.3} to {:.3}", mark.ratio.low, mark.ratio.high);
        table.row([
            mark.among().to_owned(),
            mark.workload.clone(),
            mark.fleet.clone(),
            mark.metric.to_owned(),
            format!("{:.3}", mark.ratio.mean),
            if seeds > 1 { interval } else { "one seed".to_owned() },
            mark.rival.clone(),
            mark.pays.map_or("-".to_owned(), |(metric, times)| format!("{metric} {times:.3}")),
            cause(mark, exceptions).to_owned(),
        ]);
    }
    table
}

/// Ours, the best of the field and the best known schedule on one workload.
pub(super) fn distance(grid: &Grid<'_>, group: &[usize]) -> Table {
    let cell = grid.cells[group[0]];
    let title = format!(
        "{} on {}: the distance to the best known schedule",
        grid.plan.workload(cell),
        grid.plan.fleet(cell)
    );
    let mut table = Table::new(
        title,
        &[
            "metric",
            "ours",
            "best of the field",
            "who",
            "best known",
            "whose",
            "ours over best known",
        ],
    );
    let answering: Vec<usize> =
        group.iter().copied().filter(|c| compare::answers(grid, *c)).collect();
    let field = marks::field(grid, group);
    let own = marks::own(grid, group);
    for metric in METRICS {
        let (Some(own), Some((_, rival)), Some((least, known))) =
            (own, compare::best(grid, &field, metric), compare::best(grid, &answering, metric))
        else {
            continue;
        };
        let show = |cell: usize| {
            let value = grid.named(cell, metric).map_or(0.0, |m| m.mean);
            metric::find(metric).map_or(String::new(), |(_, m)| claim::number(m, value))
        };
        let distance = compare::mean_cost(grid, own, metric).unwrap_or(f64::NAN) / least;
        table.row([
            metric.to_owned(),
            show(own),
            show(rival),
            grid.plan.system(grid.cells[rival]).to_owned(),
            show(known),
            grid.plan.system(grid.cells[known]).to_owned(),
            format!("{distance:.3}"),
        ]);
    }
    table
}
