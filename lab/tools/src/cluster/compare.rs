//! Compares policies on one cluster: the same requests, the same objectives.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use meridian_base::{Duration, PortId, Time};
use meridian_fabric::Topology;
use meridian_sim::cluster::{self, Holding, Report, Slice, Watch};
use serde_json::{Value, json};

use super::file::File;
use super::score::Score;
use super::timeline::{Timeline, who};
use crate::plot::Figure;
use crate::staged::{put, staged};
use crate::table::Table;
use crate::{parallel, results};

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Compare {
    /// The policies, by name.
    pub policies: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The port of the timeline, as named in the output; the busiest by default.
    pub port: Option<String>,
    /// Start of the timeline; by default the middle of the arrivals.
    pub from: Option<Duration>,
    /// Length of the timeline; by default a few layers for a cluster, the whole run for single
    /// flows.
    pub window: Option<Duration>,
}

/// The timeline's default length on a cluster: some layers.
const WINDOW: Duration = Duration::from_millis(20);

impl Compare {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.policies.is_empty(), "--policy is empty: name one or more");
        let window = self.window.unwrap_or(WINDOW);
        ensure!(!window.is_zero(), "--window is 0s: use a length of time, as in 50ms");
        Ok(())
    }

    /// A timeline that starts after the run's end would be empty.
    pub(crate) fn begins_before(&self, end: Time) -> anyhow::Result<()> {
        let from = self.from.unwrap_or_default();
        let (seconds, end) = (from.as_secs_f64(), end.as_secs_f64());
        ensure!(
            seconds < end,
            "--from is {from:?}, and the last flow ends at {end:.3} s: use less"
        );
        Ok(())
    }
}

/// The result of a comparison.
pub struct Compared {
    /// The page's title.
    pub title: &'static str,
    /// A table for each model, one of the ports, one of the watched port's flows.
    pub tables: Vec<Table>,
    /// A timeline for each policy.
    pub figures: Vec<Figure>,
    /// Rows for `results.json`.
    pub rows: Vec<Value>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Runs a cluster under each policy.
///
/// # Errors
/// If the file or the options are invalid.
pub fn run(file: &File, compare: &Compare) -> anyhow::Result<Compared> {
    compare.check()?;
    let mut setups = Vec::new();
    for policy in &compare.policies {
        setups.push(super::setup(file, policy, compare.seed)?);
    }
    // The first policy determines the port: which one is busiest depends on the load.
    let first = cluster::run(&setups[0])?;
    compare.begins_before(first.end)?;
    let port = port(&first, compare)?;
    let arrivals = setups[0].pools.iter().flat_map(|pool| &pool.requests).map(|one| one.at);
    let last = arrivals.max().unwrap_or(Time::ZERO);
    let from =
        compare.from.map_or(Time::ZERO + last.since(Time::ZERO) / 2, |from| Time::ZERO + from);
    let span = compare.window.unwrap_or(WINDOW);
    let watch = Watch { port, from, span };
    setups.iter_mut().for_each(|setup| setup.watch = Some(watch));
    let reports = parallel(setups.len(), |nth| cluster::run(&setups[nth]));
    let reports: Vec<Report> = reports.into_iter().collect::<Result<_, _>>()?;
    let rate = rate(&setups[0], port)?;
    let name = named(&first, port);
    let mut figures = Vec::new();
    for (policy, report) in compare.policies.iter().zip(&reports) {
        let (window, slices) = ((from, from + span), &report.slices[..]);
        let drawn = Timeline { policy, port: &name, rate, window, slices, who: &who };
        let title = format!("{policy}: who had {name}");
        figures.push(Figure::new(&["timeline", policy], title, drawn.svg()));
    }
    let mut tables = Vec::new();
    let mut rows = Vec::new();
    for (nth, served) in file.models.iter().enumerate() {
        let scores: Vec<(String, Option<Score>)> = compare
            .policies
            .iter()
            .zip(&reports)
            .map(|(policy, report)| (policy.clone(), Score::of(report, nth)))
            .collect();
        tables.push(table(&served.model, &scores));
        rows.extend(
            scores
                .iter()
                .filter_map(|(policy, score)| Some(row(policy, &served.model, score.as_ref()?))),
        );
    }
    tables.push(ports(&first));
    let had = compare.policies.iter().zip(&reports).map(|(policy, report)| Had {
        policy,
        slices: &report.slices,
        who: Box::new(who),
    });
    tables.push(held(&name, rate * span.as_secs_f64(), had));
    let title = "Flow policies on a cluster (simulated)";
    Ok(Compared { title, tables, figures, rows, notes: notes(&setups[0], &first, compare) })
}

fn notes(setup: &cluster::Setup, report: &Report, compare: &Compare) -> Vec<String> {
    let fold = cluster::fold(&setup.fabric, &setup.pools);
    let mut notes = vec![format!(
        "seed {}, {} requests in {} batches and {} flows over {:.2} s under {}",
        compare.seed,
        report.records.len(),
        report.batches,
        report.flows,
        report.end.as_secs_f64(),
        compare.policies[0],
    )];
    if fold > 1 {
        notes.push(format!(
            "one of {fold} tensor-parallel GPUs is simulated, for all do the same: cards and GPUs are \
             numbered so"
        ));
    }
    notes
}

fn port(report: &Report, compare: &Compare) -> anyhow::Result<PortId> {
    let Some(wanted) = &compare.port else {
        return report.busiest.first().map(|(port, ..)| *port).context("no port carried any flow");
    };
    let named = report.busiest.iter().find(|(_, name, _)| name.to_string() == *wanted);
    let Some((port, ..)) = named else {
        let known: Vec<_> = report.busiest.iter().map(|(_, name, _)| format!("`{name}`")).collect();
        bail!("--port `{wanted}` is not one of the busiest: use one of {}", known.join(", "));
    };
    Ok(*port)
}

fn named(report: &Report, port: PortId) -> String {
    let found = report.busiest.iter().find(|(one, ..)| *one == port);
    found.map_or_else(|| port.to_string(), |(_, name, _)| name.to_string())
}

fn rate(setup: &cluster::Setup, port: PortId) -> anyhow::Result<f64> {
    let fold = cluster::fold(&setup.fabric, &setup.pools);
    let mut fabric = setup.fabric;
    (fabric.gpus, fabric.cards) = (fabric.gpus / fold, fabric.cards / fold);
    let topology = Topology::new(fabric)?;
    Ok(topology.rates()[port.index()])
}

/// A model's figures, a policy a row.
#[must_use]
pub fn table(model: &str, scores: &[(String, Option<Score>)]) -> Table {
    let header = [
        "policy",
        "in time",
        "TTFT mean, ms",
        "P50",
        "P99",
        "over low load",
        "exchange, ms",
        "fetch wait, ms",
        "early by, ms",
        "late by, ms",
        "given up",
    ];
    let mut table = Table::new(model, &header);
    for (policy, score) in scores {
        let Some(score) = score else { continue };
        let maybe = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        table.row([
            policy.clone(),
            format!("{:.1} %", 100.0 * score.attainment),
            format!("{:.1}", score.ttft.mean),
            format!("{:.1}", score.ttft.p(50)),
            format!("{:.1}", score.ttft.p(99)),
            format!("{:.2}", score.slowdown),
            maybe(score.cct, 3),
            maybe(score.stall, 3),
            maybe(score.earliness, 1),
            maybe(score.lateness, 1),
            score.demoted.to_string(),
        ]);
    }
    table
}

fn ports(report: &Report) -> Table {
    let mut table = Table::new("Busiest ports, under the first policy", &["port", "of its rate"]);
    for (_, name, share) in report.busiest.iter().take(5) {
        table.row([name.to_string(), format!("{:.1} %", 100.0 * share)]);
    }
    table
}

/// A policy's timeline, for the table.
pub(crate) struct Had<'a> {
    pub(crate) policy: &'a str,
    pub(crate) slices: &'a [Slice],
    /// The owner of a flow.
    pub(crate) who: Box<dyn Fn(&Holding) -> String + 'a>,
}

/// The flows at the port: each stage's share of its capacity, and the flow that had most.
pub(crate) fn held<'a>(port: &str, most: f64, of: impl Iterator<Item = Had<'a>>) -> Table {
    let title = format!("Who had {port} during the timeline");
    let header = ["policy", "reuse", "collective", "handoff", "had most", "its share", "why"];
    let mut table = Table::new(title, &header);
    for Had { policy, slices, who } in of {
        let mut stages = [0.0; 3];
        let mut owners: BTreeMap<String, (f64, String)> = BTreeMap::new();
        for slice in slices {
            let seconds = slice.to.since(slice.from).as_secs_f64();
            for holding in &slice.holders {
                let bytes = holding.rate * seconds;
                stages[holding.stage as usize] += bytes;
                let entry = owners.entry(who(holding)).or_default();
                *entry = (entry.0 + bytes, holding.why.to_string());
            }
        }
        let share = |bytes: f64| format!("{:.1} %", 100.0 * bytes / most);
        let first = owners.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let (owner, (bytes, why)) = first.unwrap_or(("none".to_owned(), (0.0, "-".to_owned())));
        let stages = stages.map(share);
        let rest = [owner, share(bytes), why];
        table.row(std::iter::once(policy.to_owned()).chain(stages).chain(rest));
    }
    table
}

/// A score as a row of `results.json`.
#[must_use]
pub fn row(policy: &str, workload: &str, score: &Score) -> Value {
    let quantile = |percent| json!(score.ttft.p(percent));
    results::bare(
        policy,
        workload,
        &[
            ("slo_attainment", json!(score.attainment)),
            ("ttft_ms.mean", json!(score.ttft.mean)),
            ("ttft_ms.p50", quantile(50)),
            ("ttft_ms.p90", quantile(90)),
            ("ttft_ms.p95", quantile(95)),
            ("ttft_ms.p99", quantile(99)),
            ("prefix_hit_ratio", json!(score.matched)),
            ("cct_ms", json!(score.cct)),
            ("earliness_ms", json!(score.earliness)),
        ],
    )
}

impl Compared {
    /// The tables, for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(Table::text).collect();
        format!("{}\n{}\n", tables.join("\n"), self.notes.join("\n"))
    }

    /// Writes the tables as a page, the timelines, `results.json`, `results.csv` and
    /// `results.parquet`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, dir: &Path, seed: u64) -> anyhow::Result<()> {
        staged(dir, |dir| self.write_files(dir, seed))
    }

    fn write_files(&self, dir: &Path, seed: u64) -> anyhow::Result<()> {
        let put = |name: &str, text: &str| put(dir, name, text);
        let tables: Vec<String> = self.tables.iter().map(Table::markdown).collect();
        let plots = self.figures.iter().map(|f| format!("![{}]({}.svg)", f.title, f.name));
        let plots: Vec<String> = plots.collect();
        let notes = self.notes.join("\n\n");
        let page = format!(
            "# {}\n\n{notes}\n\n{}\n\n{}\n",
            self.title,
            tables.join("\n\n"),
            plots.join("\n\n")
        );
        put("report.md", &page)?;
        for figure in &self.figures {
            put(&format!("{}.svg", figure.name), &figure.svg)?;
        }
        let file = results::file("flow-sim", &crate::commit(), seed as u32, self.rows.clone(), "");
        results::flat(&self.rows).write(dir, "results")?;
        put("results.json", &(serde_json::to_string_pretty(&file)? + "\n"))
    }
}
