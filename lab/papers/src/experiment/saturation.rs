//! Near saturation: how often each system ends in a bad state, from a warm and from a cold start.
//!
//! Close to a fleet's capacity, hits and load reinforce each other: hits free capacity, and free
//! capacity lets requests go where their prefixes are cached. Depending on the seed, a system may
//! settle in a good or a bad state, and a mean over five seeds hides which. So every workload runs
//! under many seeds from two starts: cold, with the full load at once on empty caches, and warm,
//! with a load that rises while caches fill. A system with a cold share far above its warm one does
//! not recover from a bad state.

use anyhow::Context as _;
use meridian_protocol::units::Span;
use meridian_tools::{metric, stats};

use super::catalogue::catalogue;
use super::cells::simulate;
use super::grid::Grid;
use super::plan::Plan;
use super::spec::{Ref, Workload};
use super::values::{Row, Values};
use super::{Context, Findings, params, results};

/// A seed counts as collapsed when its mean TTFT is above this many times the lower quartile of the
/// same system on the same workload, over all seeds of both starts.
const COLLAPSED: f64 = 2.0;
/// The starts.
const STARTS: [&str; 2] = ["cold", "warm"];

/// Runs the seeds.
///
/// # Errors
/// If the YAML is invalid.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut spec = context.spec.clone();
    let rise = context.knob("warm_rise_s")?;
    let rise = Span(std::time::Duration::try_from_secs_f64(rise).context("knobs.warm_rise_s")?);
    let mut workloads = Vec::new();
    for (i, workload) in context.spec.workloads.iter().enumerate() {
        let field = format!("workloads[{i}]");
        let workload = workload.resolve(&catalogue().workloads, |w| &w.name, &field)?;
        workloads.extend(STARTS.map(|start| Ref::Own(started(&workload, start, rise))));
    }
    spec.workloads = workloads;
    let plan = Plan::new(&spec, context.quick)?;
    let grid = simulate(context, &plan)?;
    let rows = pairs(&grid).iter().flat_map(|pair| rows(&grid, pair)).collect();
    Ok(Findings {
        rows: results::rows(&grid),
        violations: grid.violations(),
        params: params::hash(&plan)?,
        ..Findings::of(&spec, Values { rows })?
    })
}

/// The workload with one of the starts.
fn started(workload: &Workload, start: &str, rise: Span) -> Workload {
    let mut workload = workload.clone();
    let warm = start == STARTS[1];
    for load in &mut workload.loads {
        load.ramp = if warm { rise } else { Span::secs(0) };
        load.rise = warm.then_some(rise);
    }
    workload.name = format!("{} {start}", workload.name);
    workload
}

/// Groups of cells, each cold start paired with its warm start.
fn pairs(grid: &Grid<'_>) -> Vec<[Vec<usize>; 2]> {
    let groups = grid.groups();
    let workload = |group: &[usize]| grid.cells[group[0]].workload;
    let fleet = |group: &[usize]| grid.cells[group[0]].fleet;
    let warm_of = |cold: &Vec<usize>| {
        let same = |g: &&Vec<usize>| workload(g) == workload(cold) + 1 && fleet(g) == fleet(cold);
        Some([cold.clone(), groups.iter().find(same)?.clone()])
    };
    groups.iter().filter(|g| workload(g).is_multiple_of(2)).filter_map(warm_of).collect()
}

/// A seed of a system: its mean TTFT and its hit ratio.
type Seed = (f64, f64);

fn seeds(grid: &Grid<'_>, cell: usize) -> Vec<Seed> {
    let by = |name| metric::find(name).map(|(place, _)| grid.by_seed(cell, place));
    let (Some(ttft), Some(hits)) = (by("ttft_ms.mean"), by("prefix_hit_ratio")) else {
        return Vec::new();
    };
    ttft.into_iter().zip(hits).filter_map(|(ttft, hits)| Some((ttft?, hits?))).collect()
}

/// A row for each system, over the seeds of both starts.
fn rows(grid: &Grid<'_>, [cold, warm]: &[Vec<usize>; 2]) -> Vec<Row> {
    let row = |(a, b): (&usize, &usize)| {
        let cell = grid.cells[*a];
        let starts = [seeds(grid, *a), seeds(grid, *b)];
        let all: Vec<Seed> = starts.concat();
        let times: Vec<f64> = all.iter().map(|s| s.0).collect();
        let bound = stats::quantile(&times, 0.25).map(|q| COLLAPSED * q)?;
        let share = |seeds: &[Seed]| {
            let bad = seeds.iter().filter(|s| s.0 > bound).count();
            bad as f64 / seeds.len().max(1) as f64
        };
        let median = |bad: bool, of: fn(&Seed) -> f64| {
            let some: Vec<f64> = all.iter().filter(|s| (s.0 > bound) == bad).map(of).collect();
            stats::median(&some)
        };
        let name = grid.plan.workload(cell).trim_end_matches(STARTS[0]).trim_end();
        Some(
            Row::new(grid.plan.system(cell), name, grid.plan.fleet(cell))
                .with("seeds_cold", [starts[0].len() as f64])
                .with("seeds_warm", [starts[1].len() as f64])
                .with("collapsed_cold", [share(&starts[0])])
                .with("collapsed_warm", [share(&starts[1])])
                .with("ttft_others", median(false, |s| s.0))
                .with("ttft_collapsed", median(true, |s| s.0))
                .with("hits_others", median(false, |s| s.1))
                .with("hits_collapsed", median(true, |s| s.1))
                .with("ttft_worst", [times.iter().copied().fold(0.0, f64::max)]),
        )
    };
    cold.iter().zip(warm).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::spec::{Spec, read};

    // The cold start has its full load at once, the warm one rises; nothing else differs.
    #[test]
    fn starts_differ_in_nothing_else() {
        let entry = crate::experiment::find("meridian-saturation").expect("it is in the registry");
        let spec: Spec = read(entry.name, entry.yaml).unwrap();
        let Ref::Own(workload) = &spec.workloads[0] else { panic!("in place") };
        let [cold, warm] = STARTS.map(|start| started(workload, start, Span::secs(9)));
        assert_eq!((cold.loads[0].ramp, cold.loads[0].rise), (Span::secs(0), None));
        assert_eq!(warm.loads[0].ramp, Span::secs(9));
        assert_eq!(warm.loads[0].rise, Some(Span::secs(9)));
        assert_eq!(cold.loads[0].generator, warm.loads[0].generator);
    }
}
