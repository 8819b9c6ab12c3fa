//! The usual kind of experiment: every system on every workload and fleet, simulated.

use meridian_tools::metric::{self, Metric};
use meridian_tools::table::Table;

use super::grid::Grid;
use super::plan::Plan;
use super::spec::Kind;
use super::values::{Row, Values};
use super::{Context, Findings, claim, duels, figures, overload, params, results, runner};

/// Default columns of tables.
const SHOW: [&str; 9] = [
    "throughput_rps",
    "ttft_ms.mean",
    "ttft_ms.p50",
    "ttft_ms.p90",
    "ttft_ms.p99",
    "e2e_ms.p50",
    "prefix_hit_ratio",
    "outstanding_spread",
    "forwarded_ratio",
];

/// Runs an experiment that is fully described by its YAML.
///
/// # Errors
///
/// If the YAML is invalid, or a plot can't be drawn.
pub fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = plan(context)?;
    let grid = simulate(context, &plan)?;
    findings(context, &grid)
}

/// The plan of the simulated runs.
///
/// # Errors
/// If the YAML is invalid.
pub fn plan(context: &Context<'_>) -> anyhow::Result<Plan> {
    let mut plan = Plan::new(&context.spec, context.quick)?;
    let simulated = |name: &String| !context.spec.live_only.contains(name);
    plan.fleets.retain(|fleet| simulated(&fleet.name));
    plan.workloads.retain(|(workload, _)| simulated(&workload.name));
    Ok(plan)
}

/// Runs every cell of `plan` under every seed.
///
/// # Errors
/// When a scenario can't be made.
pub fn simulate<'a>(context: &Context<'_>, plan: &'a Plan) -> anyhow::Result<Grid<'a>> {
    let cells = plan.cells();
    let first = context.spec.first_seed;
    let seeds: Vec<u64> = (first..first + u64::from(context.seeds)).collect();
    let keep = context.spec.plots.iter().any(|plot| plot.kind == Kind::Timeline);
    let observed = runner::run(context, plan, &cells, &seeds, keep)?;
    Ok(Grid { plan, cells, seeds, observed })
}

/// Tables, published figures, plots and rows of a grid.
///
/// # Errors
/// A plot that can't be drawn.
pub fn findings(context: &Context<'_>, grid: &Grid<'_>) -> anyhow::Result<Findings> {
    findings_with(context, grid, Vec::new())
}

/// [`findings`] whose published figures and own tables are also about further rows of values.
///
/// # Errors
/// A plot that can't be drawn.
pub fn findings_with(
    context: &Context<'_>,
    grid: &Grid<'_>,
    more: Vec<Row>,
) -> anyhow::Result<Findings> {
    let spec = &context.spec;
    let show: Vec<&str> = match spec.show.as_slice() {
        [] => SHOW.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let mut values = Values::of(grid);
    values.rows.extend(more);
    let mut found = Findings::of(spec, values)?;
    let (pairs, targets) = duels::findings(spec, grid)?;
    found.tables.extend(pairs);
    found.claims.extend(targets);
    found.tables.extend(tables(grid, &show, context.seeds > 1));
    found.figures.extend(figures::all(spec, grid)?);
    Ok(Findings {
        rows: results::rows(grid),
        violations: grid.violations(),
        overloads: overload::lines(grid),
        windows: grid.plan.windows(),
        legend: metric::legend(&show),
        params: params::hash(grid.plan)?,
        ..found
    })
}

/// A table for each workload and fleet: a row a system, a column a metric. With several seeds each
/// value has its interval, followed by the share of collapsed seeds.
#[must_use]
pub fn tables(grid: &Grid<'_>, show: &[&str], seeds: bool) -> Vec<Table> {
    tables_of(grid, show, seeds, |_| true)
}

/// [`tables`] with the rows of some cells only.
#[must_use]
pub fn tables_of(
    grid: &Grid<'_>,
    show: &[&str],
    seeds: bool,
    keep: impl Fn(usize) -> bool,
) -> Vec<Table> {
    let metrics: Vec<(usize, &Metric)> =
        show.iter().chain(&["lost"]).filter_map(|name| metric::find(name)).collect();
    let table = |group: Vec<usize>| {
        let cell = grid.cells[group[0]];
        let title = format!("{} on {}", grid.plan.workload(cell), grid.plan.fleet(cell));
        let mut header = vec!["system"];
        header.extend(metrics.iter().map(|(_, m)| m.name));
        header.extend(seeds.then_some("collapsed"));
        let mut table = Table::new(title, &header);
        for i in group.into_iter().filter(|cell| keep(*cell)) {
            let mut row = vec![grid.plan.system(grid.cells[i]).to_owned()];
            row.extend(metrics.iter().map(|(place, m)| value(grid, i, *place, m, seeds)));
            if seeds {
                row.push(grid.collapsed(i).map_or("-".to_owned(), |c| format!("{c:.2}")));
            }
            table.row(row);
        }
        table
    };
    grid.groups().into_iter().map(table).collect()
}

fn value(grid: &Grid<'_>, cell: usize, place: usize, metric: &Metric, seeds: bool) -> String {
    let Some(mean) = grid.mean(cell, place, metric) else { return "-".to_owned() };
    let show = |v| claim::number(metric, v);
    if seeds && !metric.sum {
        return format!("{} ({}-{})", show(mean.mean), show(mean.low), show(mean.high));
    }
    show(mean.mean)
}
