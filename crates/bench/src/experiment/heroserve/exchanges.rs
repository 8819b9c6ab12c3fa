//! Figure 9: bytes that are all-reduced a second, by groups that do nothing else.

use anyhow::Context as _;
use meridian_plan::{GpuId, Topology};
use serde_json::json;

use super::unit;
use crate::experiment::claim::Claim;
use crate::experiment::plot::{self, Figure, Point};
use crate::experiment::runner::parallel;
use crate::experiment::spec::Exchanges;
use crate::experiment::table::Table;
use crate::experiment::{Context, Findings, params, results};
use crate::fleet::{Exchange, Mode, System};

/// One figure.
struct Run {
    topology: usize,
    mode: Mode,
    system: System,
    size: usize,
}

/// Runs it.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let spec = context.spec.exchanges.as_ref().context("exchanges: missing; say what runs")?;
    let mut small = spec.clone();
    if context.quick {
        small.window = spec.quick_window;
        small.sizes.truncate(1);
    }
    let topologies: Vec<Topology> =
        small.topologies.iter().map(|name| unit(name, None)).collect::<anyhow::Result<_>>()?;
    let runs = runs(&small);
    let seconds = small.window.0.as_secs_f64();
    let rates = parallel(runs.len(), |nth| {
        let run = &runs[nth];
        let topology = &topologies[run.topology];
        let bytes = small.sizes[run.size] * 1e6;
        let rate =
            Exchange::new(topology, &groups(topology), run.system, run.mode).rate(bytes, seconds);
        (context.progress)(nth + 1, runs.len(), run.system.name());
        rate
    });
    let mut found = Findings {
        params: params::of_text(&serde_json::to_string(&small)?),
        ..Findings::default()
    };
    for (at, name) in small.topologies.iter().enumerate() {
        found.tables.push(table(&small, &runs, &rates, at, name));
        for mode in Mode::ALL {
            found.figures.push(figure(&small, &runs, &rates, (at, name, mode))?);
        }
    }
    for (run, rate) in runs.iter().zip(&rates) {
        let workload = format!("{}, {} MB", small.topologies[run.topology], small.sizes[run.size]);
        let given = [("mode", json!(run.mode.name())), ("aggregated_bytes_per_s", json!(rate))];
        found.rows.push(results::bare(run.system.name(), &workload, &given));
    }
    found.claims = claims(&small, &runs, &rates);
    Ok(found)
}

fn runs(spec: &Exchanges) -> Vec<Run> {
    let mut all = Vec::new();
    for topology in 0..spec.topologies.len() {
        for mode in Mode::ALL {
            for system in System::ALL {
                for size in 0..spec.sizes.len() {
                    all.push(Run { topology, mode, system, size });
                }
            }
        }
    }
    all
}

/// Eight ranks each, half of them on each of two servers, until no pair of servers is left.
fn groups(topology: &Topology) -> Vec<Vec<GpuId>> {
    let mut all = Vec::new();
    for pair in topology.servers().chunks_exact(2) {
        for first in (0..pair[0].gpus.min(pair[1].gpus)).step_by(4) {
            let half = |server: &meridian_plan::Server| {
                (server.first + first..server.first + first + 4).map(GpuId).collect::<Vec<_>>()
            };
            all.push([half(&pair[0]), half(&pair[1])].concat());
        }
    }
    all
}

fn at(runs: &[Run], rates: &[f64], of: (usize, Mode, System, usize)) -> f64 {
    let is = |run: &&Run| (run.topology, run.mode, run.system, run.size) == of;
    let nth = runs.iter().position(|run| is(&run)).expect("every combination was run");
    rates[nth]
}

fn table(spec: &Exchanges, runs: &[Run], rates: &[f64], topology: usize, name: &str) -> Table {
    let sizes: Vec<String> = spec.sizes.iter().map(|size| format!("{size} MB, GB/s")).collect();
    let header: Vec<&str> =
        ["mode", "system"].into_iter().chain(sizes.iter().map(String::as_str)).collect();
    let mut table = Table::new(format!("All-reduced by all groups, {name} (simulated)"), &header);
    for mode in Mode::ALL {
        for system in System::ALL {
            let one = |size| at(runs, rates, (topology, mode, system, size)) / 1e9;
            let cells = (0..spec.sizes.len()).map(|size| format!("{:.1}", one(size)));
            let names = [mode.name(), system.name()].map(str::to_owned);
            table.row(names.into_iter().chain(cells));
        }
    }
    table
}

fn figure(
    spec: &Exchanges,
    runs: &[Run],
    rates: &[f64],
    (topology, name, mode): (usize, &str, Mode),
) -> anyhow::Result<Figure> {
    let line = |system: System| {
        let point = |(size, x): (usize, &f64)| {
            let mean = at(runs, rates, (topology, mode, system, size)) / 1e9;
            Point { x: *x, mean, low: mean, high: mean }
        };
        (system.name().to_owned(), spec.sizes.iter().enumerate().map(point).collect())
    };
    let lines: Vec<_> = System::ALL.into_iter().map(line).collect();
    let title = format!("All-reduced by all groups ({name}, mode {}, simulated)", mode.name());
    let svg = plot::lines(&title, ["message, MB", "GB/s"], &lines, false)?;
    Ok(Figure::new(&["exchanges", name, mode.name()], title, svg))
}

fn claims(spec: &Exchanges, runs: &[Run], rates: &[f64]) -> Vec<Claim> {
    let mut all = Vec::new();
    for claim in &spec.published {
        for mode in Mode::ALL {
            let names = spec.topologies.iter().enumerate();
            let about = names.filter(|(_, name)| claim.cases.contains(name));
            let ours: Vec<f64> = about
                .flat_map(|(topology, _)| (0..spec.sizes.len()).map(move |size| (topology, size)))
                .flat_map(|(topology, size)| {
                    let of = move |system| at(runs, rates, (topology, mode, system, size));
                    claim.over.iter().map(move |over| of(System::Heroserve) / of(*over))
                })
                .collect();
            let what = format!("{}, mode {}", claim.what, mode.name());
            all.push(Claim::ratios(&what, &claim.source, &claim.published, &ours));
        }
    }
    all
}
