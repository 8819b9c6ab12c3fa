//! The plots that an experiment's YAML asks for.

use meridian_tools::metric::{self, Metric};
use meridian_tools::plot::{self, Figure, Point};
use meridian_tools::stats::Mean;

use super::grid::Grid;
use super::plan::Cell;
use super::spec::{Kind, Plot, Spec};

/// Every plot of an experiment.
///
/// # Errors
/// A plot that can't be drawn.
pub fn all(spec: &Spec, grid: &Grid<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for plot in &spec.plots {
        match plot.kind {
            Kind::Replicas => figures.extend(replicas(plot, grid)?),
            Kind::Clients => figures.extend(clients(plot, grid)?),
            Kind::Timeline => figures.extend(timelines(plot, grid)?),
            Kind::Bars | Kind::Boxes | Kind::Cdf => {
                for group in grid.groups() {
                    figures.push(of_group(plot, grid, &group)?);
                }
            }
        }
    }
    Ok(figures)
}

fn of_group(plot: &Plot, grid: &Grid<'_>, group: &[usize]) -> anyhow::Result<Figure> {
    let cell = grid.cells[group[0]];
    let (workload, fleet) = (grid.plan.workload(cell), grid.plan.fleet(cell));
    let title = format!("{} ({workload} on {fleet}, simulated)", plot.metric);
    let name = |i: &usize| grid.plan.system(grid.cells[*i]).to_owned();
    let dists = || {
        let dist = |i: &usize| Some((name(i), grid.dist(*i, &plot.metric)?));
        group.iter().filter_map(dist).collect::<Vec<_>>()
    };
    let (kind, svg) = match plot.kind {
        Kind::Boxes => ("boxes", plot::boxes(&title, &unit(&plot.metric), &dists(), plot.log)?),
        Kind::Cdf => ("cdf", plot::cdf(&title, &unit(&plot.metric), &dists(), plot.log)?),
        _ => {
            let (place, metric) = metric::find(&plot.metric).expect("the plan was checked");
            let bar =
                |i: &usize| Some((name(i), point(0.0, grid.mean(*i, place, metric)?, metric)));
            let bars: Vec<_> = group.iter().filter_map(bar).collect();
            ("bars", plot::bars(&title, metric.doc, &bars)?)
        }
    };
    Ok(Figure::new(&[&plot.metric, kind, workload, fleet], title, svg))
}

fn unit(distribution: &str) -> String {
    distribution.trim_end_matches("_ms").to_uppercase() + ", ms"
}

fn point(x: f64, mean: Mean, metric: &Metric) -> Point {
    let scale = if metric.percent { 100.0 } else { 1.0 };
    let [mean, low, high] = [mean.mean, mean.low, mean.high].map(|v| v * scale);
    Point { x, mean, low, high }
}

/// A metric over the number of replicas: a plot a workload, a line a system.
fn replicas(plot: &Plot, grid: &Grid<'_>) -> anyhow::Result<Vec<Figure>> {
    let size = |cell: &Cell| {
        let groups = grid.plan.fleets[cell.fleet].groups.iter();
        groups.flat_map(|g| &g.count).sum::<u32>()
    };
    let of = |workload: usize| {
        let name = &grid.plan.workloads[workload].0.name;
        over(plot, grid, ("replicas", name), |cell| (cell.workload == workload).then(|| size(cell)))
    };
    (0..grid.plan.workloads.len()).map(of).collect()
}

/// A metric over the number of clients: a plot a fleet, a line a system.
fn clients(plot: &Plot, grid: &Grid<'_>) -> anyhow::Result<Vec<Figure>> {
    let size = |cell: &Cell| {
        let workload = &grid.plan.workloads[cell.workload].0;
        let shown = plot.workloads.is_empty() || plot.workloads.contains(&workload.name);
        shown.then(|| workload.loads.iter().filter_map(|l| l.clients.as_ref()).flatten().sum())
    };
    let of = |fleet: usize| {
        let name = &grid.plan.fleets[fleet].name;
        over(plot, grid, ("clients", name), |cell| size(cell).filter(|_| cell.fleet == fleet))
    };
    (0..grid.plan.fleets.len()).map(of).collect()
}

/// A metric over a number of some cells: a line a system.
fn over(
    plot: &Plot,
    grid: &Grid<'_>,
    (of, name): (&str, &str),
    number: impl Fn(&Cell) -> Option<u32>,
) -> anyhow::Result<Figure> {
    let (place, metric) = metric::find(&plot.metric).expect("the plan was checked");
    let line = |system: usize| {
        let mine = grid.cells.iter().enumerate().filter(|(_, cell)| cell.system == system);
        let at = |(i, cell): (usize, &Cell)| {
            let number = number(cell)?;
            Some(point(f64::from(number), grid.mean(i, place, metric)?, metric))
        };
        let mut points: Vec<Point> = mine.filter_map(at).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        (grid.plan.systems[system].0.name.clone(), points)
    };
    let lines: Vec<_> = (0..grid.plan.systems.len()).map(line).collect();
    let title = format!("{} over {of} ({name}, simulated)", plot.metric);
    let svg = plot::lines(&title, [of, metric.doc], &lines, plot.log)?;
    Ok(Figure::new(&[&plot.metric, of, name], title, svg))
}

/// A state of the replicas over time under the first seed: a plot a cell, a line a replica.
fn timelines(plot: &Plot, grid: &Grid<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (cell, seeds) in grid.cells.iter().zip(&grid.observed) {
        let mut lines: Vec<(String, Vec<Point>)> = Vec::new();
        for sample in seeds.first().map_or(&[][..], |first| &first.samples) {
            let value = match plot.metric.as_str() {
                "kv_used" => f64::from(sample.kv_used) * 100.0,
                "running" => f64::from(sample.running),
                _ => f64::from(sample.outstanding),
            };
            let replica = sample.replica as usize;
            while lines.len() <= replica {
                lines.push((format!("replica {}", lines.len()), Vec::new()));
            }
            let x = sample.at.as_secs_f64();
            lines[replica].1.push(Point { x, mean: value, low: value, high: value });
        }
        let (workload, fleet) = (grid.plan.workload(*cell), grid.plan.fleet(*cell));
        let system = grid.plan.system(*cell);
        let title = format!("{} of {system} ({workload} on {fleet}, simulated)", plot.metric);
        let label = if plot.metric == "kv_used" { "KV used, %" } else { &plot.metric };
        let svg = plot::timeline(&title, label, &lines)?;
        figures.push(Figure::new(&[&plot.metric, "timeline", workload, fleet, system], title, svg));
    }
    Ok(figures)
}
