//! Ablation: our default policy against itself with one term disabled or changed at a time.
//!
//! The file's first system is the default; every other one is named after the term it lacks. A row
//! shows the cost of leaving the term out, in percent, as the geometric mean over one half of the
//! workloads: those used for tuning, and those not used. A term pays if the interval of its score
//! is above 0 on the judging half; one that does not should not be in the policy. Interactions of
//! two terms do not show here.

use anyhow::bail;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::cells::{findings, simulate};
use super::claim::Claim;
use super::compare::{self, SCORE};
use super::grid::Grid;
use super::plan::Plan;
use super::spec::Half;
use super::{Context, Findings};

/// Metrics of a row besides the score.
const SHOWN: [&str; 5] =
    ["throughput_rps", "ttft_ms.mean", "ttft_ms.p90", "ttft_ms.p99", "e2e_ms.mean"];

/// Runs the ablation.
///
/// # Errors
/// If the YAML is invalid, or a workload belongs to neither half.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    halves(&plan)?;
    let grid = simulate(context, &plan)?;
    let mut found = findings(context, &grid)?;
    let terms: Vec<usize> = (1..plan.systems.len()).collect();
    let mut tables: Vec<Table> =
        [Half::Judging, Half::Tuning].iter().map(|half| by_half(&grid, &terms, *half)).collect();
    tables.push(by_workload(&grid, &terms));
    tables.append(&mut found.tables);
    found.tables = tables;
    found.claims.push(verdict(&grid, &terms));
    Ok(found)
}

/// Checks that every workload has its half.
///
/// # Errors
///
/// Those that have none.
pub(super) fn halves(plan: &Plan) -> anyhow::Result<()> {
    let without = plan.workloads.iter().filter(|w| w.0.half.is_none());
    let problems: Vec<String> = without
        .map(|w| format!("workloads ({}).half: missing; use tuning or judging", w.0.name))
        .collect();
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(())
}

/// The cells of `system` paired with those of the default, on the workloads of `half`.
fn pairs(grid: &Grid<'_>, system: usize, half: Option<Half>) -> Vec<(usize, usize)> {
    let of = |group: Vec<usize>| {
        let at = |place: usize| group.iter().copied().find(|c| grid.cells[*c].system == place);
        let workload = &grid.plan.workloads[grid.cells[group[0]].workload].0;
        let wanted = half.is_none() || workload.half == half;
        at(system).zip(at(0)).filter(|_| wanted)
    };
    grid.groups().into_iter().filter_map(of).collect()
}

/// The cost of leaving a term out, over some workloads.
fn cost(grid: &Grid<'_>, pairs: &[(usize, usize)], metrics: &[&str]) -> Option<Mean> {
    compare::geometric(&compare::logs(grid, pairs, metrics))
}

fn show(grid: &Grid<'_>, cost: Option<Mean>) -> String {
    cost.map_or("-".to_owned(), |ratio| compare::percent(ratio, grid.seeds.len()))
}

/// Whether a term pays.
fn pays(grid: &Grid<'_>, system: usize, half: Half) -> &'static str {
    let pairs = pairs(grid, system, Some(half));
    if pairs.iter().any(|(cell, _)| !compare::answers(grid, *cell)) {
        return "pays: without it not all is answered";
    }
    match cost(grid, &pairs, &SCORE) {
        Some(Mean { low, .. }) if low > 1.0 => "pays",
        Some(Mean { high, .. }) if high < 1.0 => "costs",
        Some(_) => "no difference",
        None => "-",
    }
}

fn by_half(grid: &Grid<'_>, terms: &[usize], half: Half) -> Table {
    let title = format!(
        "What each change costs on the {} half, %: the geometric mean over its workloads (above 0: \
         the default is better)",
        half.name()
    );
    let mut header = vec!["change", "score"];
    header.extend(SHOWN);
    header.push("the term");
    let mut table = Table::new(title, &header);
    for &term in terms {
        let pairs = pairs(grid, term, Some(half));
        let mut row = vec![grid.plan.systems[term].0.name.clone()];
        row.push(show(grid, cost(grid, &pairs, &SCORE)));
        row.extend(SHOWN.iter().map(|metric| show(grid, cost(grid, &pairs, &[metric]))));
        row.push(pays(grid, term, half).to_owned());
        table.row(row);
    }
    table
}

/// The score alone, by workload.
fn by_workload(grid: &Grid<'_>, terms: &[usize]) -> Table {
    let groups = grid.groups();
    let name = |group: &Vec<usize>| {
        let cell = grid.cells[group[0]];
        format!("{} on {}", grid.plan.workload(cell), grid.plan.fleet(cell))
    };
    let names: Vec<String> = groups.iter().map(name).collect();
    let mut header = vec!["change"];
    header.extend(names.iter().map(String::as_str));
    let mut table = Table::new("What each change costs in score by workload, %", &header);
    for &term in terms {
        let mut row = vec![grid.plan.systems[term].0.name.clone()];
        for pair in pairs(grid, term, None) {
            let ratio = cost(grid, &[pair], &SCORE);
            row.push(ratio.map_or("-".to_owned(), |r| compare::percent(r, 1)));
        }
        table.row(row);
    }
    table
}

fn verdict(grid: &Grid<'_>, terms: &[usize]) -> Claim {
    let pays = terms.iter().filter(|t| pays(grid, **t, Half::Judging).starts_with("pays")).count();
    let what = "terms whose absence costs, on the half that nothing was tuned on";
    Claim::target(what, pays, terms.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::spec::{Smaller, Spec, read};

    // The complete file is valid: every workload has its half, both halves have some, and every
    // change is one of the default policy.
    #[test]
    fn the_file_is_fine() {
        let entry = crate::experiment::find("meridian-ablation").expect("it is in the registry");
        let spec: Spec = read(entry.name, entry.yaml).unwrap();
        let plan = Plan::new(&spec, false).unwrap();
        halves(&plan).unwrap();
        for half in [Half::Tuning, Half::Judging] {
            assert!(plan.workloads.iter().any(|w| w.0.half == Some(half)), "{}", half.name());
        }
        assert!(plan.systems.iter().all(|s| s.1.name == "meridian"));
        let mut none = spec;
        none.regions = Some(crate::experiment::spec::Ref::Named("skywalker".to_owned()));
        none.quick = Smaller::default();
        none.workloads = vec![
            read("test", "{name: w, loads: [{generator: tree2, clients: [1, 1, 1]}]}").unwrap(),
        ];
        let error = format!("{:#}", halves(&Plan::new(&none, false).unwrap()).unwrap_err());
        assert!(error.contains("workloads (w).half: missing; use tuning or judging"), "{error}");
    }
}
