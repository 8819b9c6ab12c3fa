//! Figure 9: bytes all-reduced a second, by groups that only do all-reduces.

use anyhow::{Context as _, ensure};
use meridian_plan::{GpuId, Topology};
use meridian_tools::plot::{self, Figure, Point};
use meridian_tools::table::Table;
use meridian_tools::{parallel, results};
use serde_json::json;

use super::unit;
use crate::experiment::claim::Claim;
use crate::experiment::spec::{Exchanges, FleetClaim, Spread};
use crate::experiment::{Context, Findings, params};
use crate::fleet::{Exchange, Mode, System};

/// Ranks of a group.
const RANKS: usize = 8;

/// Groups on a topology.
struct Case {
    name: String,
    topology: Topology,
    groups: Vec<Vec<GpuId>>,
}

/// One figure: gigabytes a second.
struct Run {
    case: usize,
    mode: Mode,
    system: System,
    size: usize,
    rate: f64,
}

/// Every figure.
struct Runs {
    sizes: Vec<f64>,
    cases: Vec<Case>,
    all: Vec<Run>,
}

/// Runs it.
///
/// # Errors
/// If the file is invalid.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let spec = context.spec.exchanges.as_ref().context("exchanges: missing; say what runs")?;
    let mut small = spec.clone();
    if context.quick {
        small.window = spec.quick_window;
        small.sizes.truncate(1);
    }
    let runs = Runs::new(&small, context)?;
    let mut found = Findings {
        params: params::of_text(&serde_json::to_string(&small)?),
        ..Findings::default()
    };
    for case in 0..runs.cases.len() {
        found.tables.push(runs.table(case));
        for mode in Mode::ALL {
            found.figures.push(runs.figure(case, mode)?);
        }
    }
    for run in &runs.all {
        let workload = format!("{}, {} MB", runs.cases[run.case].name, small.sizes[run.size]);
        let given = [("mode", json!(run.mode.name())), ("all_reduced_gb_per_s", json!(run.rate))];
        found.rows.push(results::bare(run.system.name(), &workload, &given));
    }
    for claim in &small.published {
        found.claims.extend(Mode::ALL.map(|mode| runs.hold(claim, mode)));
    }
    Ok(found)
}

/// Groups, server after server, until the servers are full or the limit is reached.
fn groups(topology: &Topology, spread: &Spread) -> anyhow::Result<Vec<Vec<GpuId>>> {
    let fits = spread.servers > 0 && RANKS.is_multiple_of(spread.servers);
    ensure!(fits, "exchanges.groups: {} servers for {RANKS} ranks; use a divisor", spread.servers);
    let each = (RANKS / spread.servers) as u32;
    let mut all = Vec::new();
    for servers in topology.servers().chunks_exact(spread.servers) {
        let least = servers.iter().map(|server| server.gpus).min().unwrap_or(0);
        for first in (0..=least.saturating_sub(each)).step_by(each as usize) {
            let part = |server: &meridian_plan::Server| {
                (server.first + first..server.first + first + each).map(GpuId)
            };
            all.push(servers.iter().flat_map(part).collect());
        }
    }
    all.truncate(spread.most.unwrap_or(usize::MAX));
    Ok(all)
}

impl Runs {
    fn new(spec: &Exchanges, context: &Context<'_>) -> anyhow::Result<Runs> {
        let mut cases = Vec::new();
        for topology in &spec.topologies {
            for spread in &spec.groups {
                let name = format!("{topology}, {}", spread.name);
                let topology = unit(topology, None)?;
                let groups = groups(&topology, spread)?;
                cases.push(Case { name, topology, groups });
            }
        }
        let mut all = Vec::new();
        for case in 0..cases.len() {
            for mode in Mode::ALL {
                for system in System::ALL {
                    let run = |size| Run { case, mode, system, size, rate: 0.0 };
                    all.extend((0..spec.sizes.len()).map(run));
                }
            }
        }
        let seconds = spec.window.0.as_secs_f64();
        let rates = parallel(all.len(), |nth| {
            let (run, bytes) = (&all[nth], spec.sizes[all[nth].size] * 1e6);
            let Case { topology, groups, name } = &cases[run.case];
            let rate = Exchange::new(topology, groups, run.system, run.mode.assumptions())
                .rate(bytes, seconds);
            (context.progress)(nth + 1, all.len(), name);
            rate / 1e9
        });
        all.iter_mut().zip(rates).for_each(|(run, rate)| run.rate = rate);
        Ok(Runs { sizes: spec.sizes.clone(), cases, all })
    }

    fn rate(&self, of: (usize, Mode, System, usize)) -> f64 {
        let is = |run: &&Run| (run.case, run.mode, run.system, run.size) == of;
        self.all.iter().find(is).map_or(f64::NAN, |run| run.rate)
    }

    fn table(&self, case: usize) -> Table {
        let sizes: Vec<String> = self.sizes.iter().map(|size| format!("{size} MB")).collect();
        let names = ["mode", "system"].into_iter();
        let header: Vec<&str> = names.chain(sizes.iter().map(String::as_str)).collect();
        let title = format!("All-reduced, GB/s: {} (simulated)", self.cases[case].name);
        let mut table = Table::new(title, &header);
        for mode in Mode::ALL {
            for system in System::ALL {
                let cell = |size| format!("{:.2}", self.rate((case, mode, system, size)));
                let names = [mode.name(), system.name()].map(str::to_owned);
                table.row(names.into_iter().chain((0..self.sizes.len()).map(cell)));
            }
        }
        table
    }

    fn figure(&self, case: usize, mode: Mode) -> anyhow::Result<Figure> {
        let line = |system: System| {
            let point = |(size, x): (usize, &f64)| {
                let mean = self.rate((case, mode, system, size));
                Point { x: *x, mean, low: mean, high: mean }
            };
            (system.name().to_owned(), self.sizes.iter().enumerate().map(point).collect())
        };
        let lines: Vec<_> = System::ALL.into_iter().map(line).collect();
        let name = &self.cases[case].name;
        let title = format!("All-reduced ({name}, mode {}, simulated)", mode.name());
        let svg = plot::lines(&title, ["message, MB", "GB/s"], &lines, false)?;
        Ok(Figure::new(&["exchanges", name, mode.name()], title, svg))
    }

    fn hold(&self, claim: &FleetClaim, mode: Mode) -> Claim {
        let mut ours = Vec::new();
        for case in 0..self.cases.len() {
            if !claim.cases.contains(&self.cases[case].name) {
                continue;
            }
            for size in 0..self.sizes.len() {
                let of = |system| self.rate((case, mode, system, size));
                ours.extend(claim.over.iter().map(|over| of(System::Heroserve) / of(*over)));
            }
        }
        let what = format!("{}, mode {}", claim.what, mode.name());
        Claim::ratios(&what, &claim.source, &claim.published, &ours)
    }
}
