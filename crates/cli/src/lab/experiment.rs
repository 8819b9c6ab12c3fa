//! `meridian experiment`: published results next to the simulator's.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_bench::experiment::{self, ALL, Entry, Options, Outcome, RELEASE};

/// Reproduce a published comparison
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of an experiment; `all` runs all, `list` lists them
    name: String,
    /// Number of seeds, from 1 [default: the experiment's own, usually 5]
    #[arg(long)]
    seeds: Option<u32>,
    /// Run real processes instead of the simulation, if the experiment supports it
    #[arg(long)]
    live: bool,
    /// Folder for the report, the plots, results.json and results.csv; `all` adds a folder for each
    /// [default: target/experiments/NAME]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Run a small variant, which only shows that the experiment works
    #[arg(long)]
    quick: bool,
    /// Hash of the commit that `release` judges, which draws its workloads [default: this binary's]
    #[arg(long)]
    commit: Option<String>,
    /// File to use instead of the experiment's own, with other systems, fleets or workloads
    #[arg(long)]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match args.name.as_str() {
        "list" => {
            for entry in ALL {
                writeln!(out, "{}", entry.name)?;
            }
            Ok(())
        }
        name if args.commit.is_some() && name != RELEASE => {
            bail!("--commit: only `{RELEASE}` draws its workloads by it; leave it out")
        }
        "all" if args.file.is_some() => bail!("--file: needs one experiment; give its name"),
        "all" => all(args),
        name => {
            let Some(entry) = experiment::find(name) else {
                let names: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
                bail!("NAME: `{name}` is unknown; use all, list or one of {}", names.join(", "));
            };
            let dir = args.out.clone().unwrap_or_else(|| folder().join(name));
            one(args, entry, dir).map(|_| ())
        }
    }
}

fn folder() -> PathBuf {
    PathBuf::from("target/experiments")
}

/// Runs every experiment, even after one fails. `release` is run once, by its name.
fn all(args: &Args) -> anyhow::Result<()> {
    let base = args.out.clone().unwrap_or_else(folder);
    let entries = ALL.iter().filter(|entry| !args.live || entry.live.is_some());
    let entries = entries.filter(|entry| entry.name != RELEASE);
    let mut failed = Vec::new();
    for entry in entries {
        if let Err(error) = one(args, entry, base.join(entry.name)) {
            eprintln!("{}: {error:#}", entry.name);
            failed.push(entry.name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs an experiment, shows and writes its results, and fails if an invariant was broken.
fn one(args: &Args, entry: &Entry, dir: PathBuf) -> anyhow::Result<Outcome> {
    let Args { seeds, live, quick, .. } = *args;
    let bar = bar(entry.name);
    let shown = std::io::stderr().is_terminal();
    let progress = |done: usize, of: usize, what: &str| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
        if !shown {
            eprintln!("{}: {done}/{of} {what}", entry.name);
        }
    };
    let commit = args.commit.clone().or_else(|| Some(env!("MERIDIAN_COMMIT").to_owned()));
    let (file, out) = (args.file.clone(), Some(dir.clone()));
    let options = Options { seeds, quick, live, file, commit, out };
    let outcome = experiment::run(entry, options, &experiment::runner::simulate, &progress);
    bar.finish_and_clear();
    let outcome = outcome?;
    outcome.write(&dir).with_context(|| format!("--out {}", dir.display()))?;
    // The reader may have closed the pipe; the files are written.
    let text = outcome.text();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n\n{text}\n{}", outcome.spec.title, dir.join("report.md").display()).ok();
    match outcome.findings.violations.len() {
        0 => Ok(outcome),
        n => bail!("{n} invariants do not hold; see {}", dir.join("report.md").display()),
    }
}

/// A bar on a terminal, and nothing elsewhere.
pub(super) fn bar(name: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar.set_prefix(name);
    bar
}
