//! `meridian experiment`: published results next to the simulator's.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_fleet::llamacpp::Own;
use meridian_papers::experiment;
use meridian_papers::experiment::runner::{Progress, simulate};
use meridian_papers::experiment::shard::Shard;
use meridian_papers::experiment::{ALL, Entry, Options, Outcome, RELEASE, shard};

/// Reproduce a published comparison
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of an experiment; `all` runs all, `list` lists them, `merge` merges shards
    name: String,
    /// Folders with the files of all shards, for `merge`
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Number of seeds, from 1 [default: the experiment's own, usually 5]
    #[arg(long)]
    seeds: Option<u32>,
    /// Run real processes instead of the simulation, if the experiment supports it
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    servers: Servers,
    /// Folder for the report, the plots, results.json, results.csv and results.parquet; `all` adds a
    /// folder for each [default: target/experiments/NAME]
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
    /// Run a part of it: every N-th run, from number I on (from 0), into shard-I-of-N.json in the
    /// folder; `merge` makes the report of all parts
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

/// llama.cpp servers of the user's choice.
#[derive(Debug, clap::Args)]
struct Servers {
    /// With --live, this llama-server in place of the installed one, on any GPU it was built for
    #[arg(long, requires_all = ["live", "gguf"], value_name = "PATH")]
    llama_server: Option<PathBuf>,
    /// The model that it serves, in GGUF
    #[arg(long, requires = "llama_server", value_name = "FILE")]
    gguf: Option<PathBuf>,
    /// Layers of the model on the GPU [default: llama-server's own]
    #[arg(long, requires = "llama_server", value_name = "N")]
    gpu_layers: Option<u32>,
}

impl Servers {
    fn read(&self) -> anyhow::Result<Option<Own>> {
        let both = self.llama_server.clone().zip(self.gguf.clone());
        Ok(both.map(|(program, gguf)| Own::new(program, gguf, self.gpu_layers)).transpose()?)
    }
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
        "merge" => merge(args),
        name if !args.folders.is_empty() => {
            bail!(
                "FOLDER: only `merge` reads folders, `{name}` does not; use --out for its results"
            )
        }
        name if args.commit.is_some() && name != RELEASE => {
            bail!("--commit: only `{RELEASE}` draws its workloads by it; leave it out")
        }
        "all" if args.file.is_some() => bail!("--file: needs one experiment; give its name"),
        "all" if args.servers.llama_server.is_some() => {
            bail!("--llama-server: needs one experiment; give its name")
        }
        "all" if args.shard.is_some() => bail!("--shard: needs one experiment; give its name"),
        "all" => all(args),
        name => {
            let Some(entry) = experiment::find(name) else {
                let names: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
                bail!("NAME: `{name}` is unknown; use all, list or one of {}", names.join(", "));
            };
            let dir = args.out.clone().unwrap_or_else(|| experiment::folder(name));
            match args.shard {
                Some(shard) => part(args, entry, dir, shard),
                None => one(args, entry, dir),
            }
        }
    }
}

/// Runs every experiment, even after one fails. `release` is run once, by its name.
fn all(args: &Args) -> anyhow::Result<()> {
    let folder = |name: &str| match &args.out {
        Some(out) => out.join(name),
        None => experiment::folder(name),
    };
    let entries = ALL.iter().filter(|entry| !args.live || entry.live.is_some());
    let entries = entries.filter(|entry| entry.name != RELEASE);
    let mut failed = Vec::new();
    for entry in entries {
        if let Err(error) = one(args, entry, folder(entry.name)) {
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
fn one(args: &Args, entry: &Entry, dir: PathBuf) -> anyhow::Result<()> {
    let options = Options { servers: args.servers.read()?, ..options(args, dir) };
    let outcome =
        with_progress(entry.name, |progress| experiment::run(entry, options, &simulate, progress));
    finish(&outcome?)
}

/// Runs a shard's part of an experiment and writes its file.
fn part(args: &Args, entry: &Entry, dir: PathBuf, shard: Shard) -> anyhow::Result<()> {
    let written = with_progress(entry.name, |progress| {
        shard::share(
            entry,
            options(args, dir.clone()),
            (shard, meridian_cli::VERSION),
            &simulate,
            progress,
        )
    });
    let merge = format!("meridian experiment merge {}", dir.display());
    let mut out = std::io::stdout().lock();
    match written? {
        Some(path) => writeln!(
            out,
            "{}\nWhen all shards have run, `{merge}` makes the report, or says that another round \
             is left.",
            path.display()
        )?,
        None => writeln!(out, "All shards have run all rounds: {merge}")?,
    }
    Ok(())
}

/// Makes an experiment's results from the files of its shards, as if it had run here.
fn merge(args: &Args) -> anyhow::Result<()> {
    if args.folders.is_empty() {
        bail!("FOLDER: missing; name the folders with the files of all shards");
    }
    let given = [
        ("--seeds", args.seeds.is_some()),
        ("--live", args.live),
        ("--quick", args.quick),
        ("--commit", args.commit.is_some()),
        ("--shard", args.shard.is_some()),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) {
        bail!("{flag}: `merge` takes it from the shards; leave it out");
    }
    let options = Options { out: args.out.clone(), ..options(args, PathBuf::new()) };
    let outcome = with_progress("merge", |progress| {
        shard::merge(&args.folders, options, meridian_cli::VERSION, &simulate, progress)
    });
    finish(&outcome?)
}

fn options(args: &Args, dir: PathBuf) -> Options {
    let Args { seeds, live, quick, .. } = *args;
    let commit = args.commit.clone().or_else(|| {
        let built = meridian_cli::COMMIT;
        (!built.is_empty()).then(|| built.to_owned())
    });
    Options { seeds, quick, live, file: args.file.clone(), commit, servers: None, out: Some(dir) }
}

/// Shows the progress of the runs while `work` runs them.
fn with_progress<T>(name: &'static str, work: impl FnOnce(&Progress<'_>) -> T) -> T {
    let bar = bar(name);
    let shown = std::io::stderr().is_terminal();
    let done = work(&|done, of, what| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
        if !shown {
            eprintln!("{name}: {done}/{of} {what}");
        }
    });
    bar.finish_and_clear();
    done
}

/// Writes and shows the results.
fn finish(outcome: &Outcome) -> anyhow::Result<()> {
    let dir = outcome.given.out.as_deref().context("an outcome has its folder")?;
    outcome.write(dir).with_context(|| format!("--out {}", dir.display()))?;
    // The reader may have closed the pipe; the files are written.
    let text = outcome.text();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n\n{text}\n{}", outcome.spec.title, dir.join("report.md").display()).ok();
    match outcome.findings.violations.len() {
        0 => Ok(()),
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
