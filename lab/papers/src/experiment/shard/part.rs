//! Runs a shard's part of an experiment, and merges the parts.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use super::files::{self, File, Shards};
use super::{Head, Partial, Rest, Runs, Shard};
use crate::experiment::runner::{Progress, Simulate};
use crate::experiment::{Entry, Options, Outcome, find, folder, given, params, run_with};

/// Experiments that can't be divided, and why.
const WHOLE: [(&str, &str); 2] = [
    ("capacity", "each size that it tries depends on the one before"),
    ("limits", "a part of it measures this machine"),
];

/// Runs a shard's part of the next round and writes its file into `options.out`. Returns the
/// file's path, or `None` if the shards there have no round left to run.
///
/// # Errors
/// Those of the experiment; an experiment without runs to divide; files of other shards there.
pub fn share(
    entry: &Entry,
    options: Options,
    (shard, build): (Shard, &str),
    simulate: &Simulate<'_>,
    progress: &Progress<'_>,
) -> anyhow::Result<Option<PathBuf>> {
    ensure!(!options.live, "--shard: processes of this machine can't be divided; leave out --live");
    if let Some((name, why)) = WHOLE.iter().find(|(name, _)| *name == entry.name) {
        bail!("--shard: {name} can't be divided: {why}; leave it out");
    }
    let head = head(entry, &options, build)?;
    let folder = options.out.clone().context("--out: missing; give a folder")?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("--out {}: cannot make this folder", folder.display()))?;
    let there = files::read(std::slice::from_ref(&folder))?;
    if let Some(there) = &there {
        fits(there, &head, shard, &folder)?;
    }
    let all = there.as_ref().filter(|there| there.missing().is_none());
    let known = all.map(Shards::known).transpose()?.unwrap_or_default();
    let mut rounds = all.map(|all| all.own(shard, known.len())).unwrap_or_default();
    let runs = Runs::new(known, Rest::Part(shard));
    match run_with(entry, options, &runs, simulate, progress) {
        Err(error) if error.is::<Partial>() => {}
        Err(error) => return Err(error),
        Ok(_) if rounds.is_empty() => {
            bail!("--shard: {} has no runs to divide; leave it out", entry.name)
        }
        Ok(_) => return Ok(None),
    }
    rounds.extend(runs.into_parts());
    File { head, shard, rounds }.write(&folder).map(Some)
}

/// Files that are there already must be of the same division of the same experiment.
fn fits(there: &Shards, head: &Head, shard: Shard, folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    if let Some((what, this, other)) = head.differs(&there.head) {
        bail!(
            "--out {shown}: {what} of the shards there is {other}, here {this}; use another folder"
        );
    }
    ensure!(
        there.of() == shard.of,
        "--out {shown}: the shards there are of {}, this is one of {}; use another folder",
        there.of(),
        shard.of
    );
    Ok(())
}

/// Merges the shards in `folders` into the outcome of the whole experiment. Of `options`, `file`
/// and `out` are the caller's; the others come from the shards.
///
/// # Errors
/// Shards that are missing, there twice, or of different experiments, builds, seeds or parameters.
pub fn merge(
    folders: &[PathBuf],
    options: Options,
    build: &str,
    simulate: &Simulate<'_>,
    progress: &Progress<'_>,
) -> anyhow::Result<Outcome> {
    let shown = || folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ");
    let shards = files::read(folders)?.with_context(|| {
        format!("{}: no shard-I-of-N.json; run an experiment with --shard I/N first", shown())
    })?;
    let entry = find(&shards.head.experiment).with_context(|| {
        format!("the shards are of `{}`, which this build lacks", shards.head.experiment)
    })?;
    merge_of(entry, &shards, options, build, simulate, progress)
}

pub(super) fn merge_of(
    entry: &Entry,
    shards: &Shards,
    options: Options,
    build: &str,
    simulate: &Simulate<'_>,
    progress: &Progress<'_>,
) -> anyhow::Result<Outcome> {
    let Head { commit, seeds, quick, .. } = shards.head.clone();
    let commit = commit.or(options.commit);
    let out = options.out.or_else(|| Some(folder(entry.name)));
    let options = Options { seeds: Some(seeds), quick, commit, out, ..options };
    if let Some((what, this, other)) = head(entry, &options, build)?.differs(&shards.head) {
        bail!("{what} is {this} here and {other} in the shards; merge with the same");
    }
    let runs = Runs::new(shards.known()?, Rest::Nothing);
    run_with(entry, options, &runs, simulate, progress)
}

fn head(entry: &Entry, options: &Options, build: &str) -> anyhow::Result<Head> {
    let (spec, seeds) = given(entry, options)?;
    let text = |file: &PathBuf| std::fs::read_to_string(file).map(|text| params::of_text(&text));
    Ok(Head {
        experiment: entry.name.to_owned(),
        build: build.to_owned(),
        commit: options.commit.clone().filter(|_| spec.draw.is_some()),
        file: options.file.as_ref().map(text).transpose()?,
        seeds,
        quick: options.quick,
    })
}
