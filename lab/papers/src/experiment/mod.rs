//! Experiments: the papers' results compared with the simulator's.
//!
//! An experiment is a file, `experiments/NAME.yaml`. The file defines the systems, workloads,
//! metrics and published figures to compare; [`cells`] runs it. An experiment with custom code also
//! has a function and a line in [`registry`]; the function may use any part of the usual one.
//! Either way the result is [`Findings`], and [`report`] writes them.
//!
//! No parameter is chosen here to match a figure: engines come from `engine`, workloads from
//! `workload`, and [`params`] hashes both into every result.

pub mod build;
mod calibration;
mod capacity;
pub mod catalogue;
pub mod cells;
pub mod claim;
pub mod compare;
mod duels;
pub mod figures;
mod goal;
mod gorgo;
pub mod grid;
mod heroserve;
mod limits;
pub mod live;
mod mfs;
pub mod overload;
pub mod params;
pub mod plan;
mod planner_measured;
pub mod price;
mod rates;
mod registry;
mod release;
pub(crate) mod report;
pub mod results;
pub mod runner;
mod saturation;
pub mod shard;
mod short;
mod skywalker_cost;
mod skywalker_load;
pub mod spec;
pub mod tables;
pub mod trace;
mod tuning;
pub mod values;
mod versus;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use meridian_fleet::llamacpp::Own;
use meridian_tools::plot::Figure;
use meridian_tools::table::Table;
use serde_json::Value;

use claim::Claim;
use runner::{Progress, Simulate};
use shard::Runs;
use spec::{Measure, Spec};
use values::Values;

pub use registry::{ALL, Code, Entry, RELEASE, find};
pub use short::short;

/// How to run an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Number of seeds; by default the experiment's own, or 1 in the small variant and live.
    pub seeds: Option<u32>,
    /// The small variant.
    pub quick: bool,
    /// On real processes instead of simulated ones, if the experiment supports it.
    pub live: bool,
    /// A file in place of the experiment's own, with other systems, fleets or workloads.
    pub file: Option<PathBuf>,
    /// The hash of the commit that is judged, for an experiment that draws its workloads by it.
    pub commit: Option<String>,
    /// The llama.cpp server of a live run, in place of the one that is installed.
    pub servers: Option<Own>,
    /// The folder for the results. It is created before anything runs, so that an hour's results
    /// are not lost for lack of it.
    pub out: Option<PathBuf>,
}

/// The input of an experiment's code.
pub struct Context<'a> {
    /// The experiment's file.
    pub spec: Spec,
    /// Seeds to run, from the file's first one.
    pub seeds: u32,
    /// Run the small variant.
    pub quick: bool,
    /// The hash of the commit that is judged.
    pub commit: Option<String>,
    /// The llama.cpp server of a live run, in place of the one that is installed.
    pub servers: Option<Own>,
    /// Where the results of runs come from.
    pub runs: &'a Runs,
    /// The simulator.
    pub simulate: &'a Simulate<'a>,
    /// Called after each run.
    pub progress: &'a Progress<'a>,
}

impl Context<'_> {
    /// A number from the file's `knobs`, or from those of the small variant if it has them.
    ///
    /// # Errors
    ///
    /// When the file has no such knob.
    pub fn knob(&self, name: &str) -> anyhow::Result<f64> {
        let quick = self.quick.then(|| self.spec.quick.knobs.get(name)).flatten();
        let found = quick.or_else(|| self.spec.knobs.get(name));
        found.copied().with_context(|| format!("knobs.{name}: missing; give a number"))
    }
}

/// The results of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The rows of `results.json`.
    pub rows: Vec<Value>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Published figures compared with ours.
    pub claims: Vec<Claim>,
    /// Plots.
    pub figures: Vec<Figure>,
    /// Further files, by name.
    pub files: Vec<(String, String)>,
    /// Broken invariants, in words.
    pub violations: Vec<String>,
    /// Overloaded systems, in words.
    pub overloads: Vec<String>,
    /// The measured part of a run, by workload; the file's `measure` if empty.
    pub windows: Vec<(String, Measure)>,
    /// Descriptions of the tables' columns, with their units.
    pub legend: Vec<String>,
    /// The hash of the calibrated parameters.
    pub params: String,
}

impl Findings {
    /// The published figures and the tables of a file, beside values.
    ///
    /// # Errors
    /// A plot that can't be drawn.
    pub fn of(spec: &Spec, values: Values) -> anyhow::Result<Findings> {
        let values = values.derived(&spec.quantities);
        let (tables, figures) = tables::all(spec, &values)?;
        let claims = claim::all(spec, &values);
        Ok(Findings { tables, claims, figures, ..Findings::default() })
    }

    /// [`Findings::of`] values that the experiment's code computed, which are its results as well.
    ///
    /// # Errors
    /// A plot that can't be drawn.
    pub fn computed(spec: &Spec, values: Values, params: String) -> anyhow::Result<Findings> {
        let rows = values.results();
        Ok(Findings { rows, params, ..Findings::of(spec, values)? })
    }
}

/// A completed experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub spec: Spec,
    /// Seeds that ran, from the file's first one.
    pub seeds: u32,
    /// Whether it was the small variant.
    pub quick: bool,
    /// Whether it ran on real processes.
    pub live: bool,
    /// The options given.
    pub given: Options,
    /// Its results.
    pub findings: Findings,
}

/// The usual folder of an experiment's results.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    Path::new("target/experiments").join(name)
}

/// Runs an experiment.
///
/// # Errors
///
/// An invalid file, or an error in its code.
pub fn run(
    entry: &Entry,
    options: Options,
    simulate: &Simulate<'_>,
    progress: &Progress<'_>,
) -> anyhow::Result<Outcome> {
    run_with(entry, options, &Runs::whole(), simulate, progress)
}

/// Most seeds of an experiment.
const MOST_SEEDS: u32 = 10_000;

/// The experiment's file and the number of seeds.
fn given(entry: &Entry, options: &Options) -> anyhow::Result<(Spec, u32)> {
    let spec: Spec = match &options.file {
        None => spec::read(entry.name, entry.yaml)?,
        Some(file) => spec::read_file(file)?,
    };
    let few = options.quick || options.live;
    let seeds = options.seeds.unwrap_or(if few { 1 } else { spec.seeds });
    ensure!(
        (1..=MOST_SEEDS).contains(&seeds),
        "seeds: {seeds} is out of range; use 1 to {MOST_SEEDS}"
    );
    Ok((spec, seeds))
}

fn run_with(
    entry: &Entry,
    options: Options,
    runs: &Runs,
    simulate: &Simulate<'_>,
    progress: &Progress<'_>,
) -> anyhow::Result<Outcome> {
    let (spec, seeds) = given(entry, &options)?;
    let from = match &options.file {
        None => format!("experiments/{}.yaml", entry.name),
        Some(file) => file.display().to_string(),
    };
    let code = match (options.live, entry.live) {
        (false, _) => entry.code,
        (true, Some(live)) => live,
        (true, None) => {
            bail!("--live: {} does not run on real processes; leave it out", entry.name)
        }
    };
    let Options { quick, live, .. } = options;
    if let Some(dir) = &options.out {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("--out {}: cannot make this folder", dir.display()))?;
    }
    let (commit, servers) = (options.commit.clone(), options.servers.clone());
    let context = Context { spec, seeds, quick, commit, servers, runs, simulate, progress };
    let findings = code(&context).with_context(|| from)?;
    Ok(Outcome {
        name: entry.name,
        spec: context.spec,
        seeds,
        quick,
        live,
        given: options,
        findings,
    })
}

#[cfg(test)]
mod tests;
