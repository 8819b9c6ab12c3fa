//! The files of shards: reads them, and checks that they belong together and are complete.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Head, Known, MOST, Round, Shard};
use crate::experiment::params;

/// The file of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) head: Head,
    pub(super) shard: Shard,
    pub(super) rounds: Vec<Round>,
}

/// The text of a file: its contents with a hash of them, as any other number in a damaged file would
/// be a result too.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    sum: String,
    contents: Box<RawValue>,
}

impl File {
    /// The text to write.
    fn sealed(&self) -> serde_json::Result<Vec<u8>> {
        let contents = serde_json::value::to_raw_value(self)?;
        serde_json::to_vec(&Sealed { sum: params::of_text(contents.get()), contents })
    }

    fn read(path: &Path) -> anyhow::Result<File> {
        let shown = path.display();
        let text = std::fs::read(path).with_context(|| shown.to_string())?;
        let other = || {
            format!(
                "{shown} is not the file of a shard, or it is damaged; remove it, and run this \
                 shard again"
            )
        };
        let Sealed { sum, contents } = serde_json::from_slice(&text).with_context(other)?;
        let own = params::of_text(contents.get());
        ensure!(
            sum == own,
            "{shown}: sum: `{sum}` is not that of its contents, {own}: the file is damaged; remove it \
             and run this shard again"
        );
        serde_json::from_str(contents.get()).with_context(other)
    }

    /// Writes it in one step, so that other shards read all of it or nothing.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join(self.shard.file());
        let part = folder.join(format!(".{}.part", self.shard.file()));
        let cannot = || format!("cannot write {}", path.display());
        std::fs::write(&part, self.sealed()?).with_context(cannot)?;
        std::fs::rename(&part, &path).with_context(cannot)?;
        Ok(path)
    }
}

/// Shards of one experiment, one or more, which belong together.
#[derive(Debug)]
pub(super) struct Shards {
    /// What they have in common.
    pub(super) head: Head,
    /// Number of shards.
    of: usize,
    /// By shard.
    files: Vec<Option<(PathBuf, File)>>,
}

/// The files of shards in some folders; `None` if there are none.
pub(super) fn read(folders: &[PathBuf]) -> anyhow::Result<Option<Shards>> {
    let mut all: Option<Shards> = None;
    for path in paths(folders)? {
        let shown = path.display().to_string();
        let file = File::read(&path)?;
        let Shard { index, of } = file.shard;
        ensure!(index < of && of <= MOST, "{shown}: no shard is {index} of {of}; remove it");
        match &mut all {
            Some(all) => all.add(path, file)?,
            None => {
                let mut files = vec![None; of];
                let head = file.head.clone();
                files[index] = Some((path, file));
                all = Some(Shards { head, of, files });
            }
        }
    }
    Ok(all)
}

/// The paths of all files with a shard's name, in the order of the folders and then of the names.
fn paths(folders: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for folder in folders {
        let before = paths.len();
        let list = std::fs::read_dir(folder)
            .with_context(|| format!("{}: cannot list this folder", folder.display()))?;
        for entry in list {
            let entry = entry.with_context(|| folder.display().to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("shard-") && name.ends_with(".json") {
                paths.push(entry.path());
            }
        }
        paths[before..].sort();
    }
    Ok(paths)
}

impl Shards {
    fn add(&mut self, path: PathBuf, file: File) -> anyhow::Result<()> {
        let (first, _) = self.files.iter().flatten().next().expect("made with a file");
        let shown = path.display();
        if let Some((what, this, other)) = self.head.differs(&file.head) {
            bail!(
                "{shown}: {what} is {other}, but {this} in {}; run all shards the same way",
                first.display()
            );
        }
        let Shard { index, of } = file.shard;
        ensure!(
            of == self.of,
            "{shown} is one of {of} shards, {} one of {}; merge the shards of one division",
            first.display(),
            self.of
        );
        if let Some((there, _)) = &self.files[index] {
            let twice = *there == path;
            ensure!(!twice, "{shown} is named twice; name each folder once");
            bail!("{shown} and {} are the same shard; remove one of them", there.display());
        }
        self.files[index] = Some((path, file));
        Ok(())
    }

    /// The shards that are missing, in words; `None` if all are there.
    pub(super) fn missing(&self) -> Option<String> {
        let gaps = (0..self.of).filter(|index| self.files[*index].is_none());
        let gaps: Vec<String> = gaps.map(|index| index.to_string()).collect();
        let list = || format!("of {} shards these are missing: {}", self.of, gaps.join(", "));
        (!gaps.is_empty()).then(list)
    }

    /// The results of all rounds that every shard has.
    ///
    /// # Errors
    /// When a shard is missing, or has other runs than the first.
    pub(super) fn known(&self) -> anyhow::Result<Vec<Known>> {
        if let Some(missing) = self.missing() {
            bail!("{missing}; run them, or name their folders too");
        }
        let files: Vec<&(PathBuf, File)> = self.files.iter().flatten().collect();
        let rounds = files.iter().map(|(_, file)| file.rounds.len()).min().unwrap_or(0);
        (0..rounds).map(|nth| joined(&files, nth)).collect()
    }

    /// A shard's own part of the rounds, the first `rounds`.
    pub(super) fn own(&self, shard: Shard, rounds: usize) -> Vec<Round> {
        let own = self.files.get(shard.index).into_iter().flatten().next();
        own.map(|(_, file)| file.rounds[..rounds].to_vec()).unwrap_or_default()
    }

    pub(super) fn of(&self) -> usize {
        self.of
    }
}

/// A round's results in the order of its runs.
fn joined(files: &[&(PathBuf, File)], nth: usize) -> anyhow::Result<Known> {
    let (first, round) = (&files[0].0, &files[0].1.rounds[nth]);
    for (path, File { shard, rounds, .. }) in files {
        let shown = path.display();
        ensure!(
            (&rounds[nth].params, rounds[nth].runs) == (&round.params, round.runs),
            "{shown}: parameters of round {} are {} ({} runs), but {} ({} runs) in {}; run all shards \
             with the same build",
            nth + 1,
            rounds[nth].params,
            rounds[nth].runs,
            round.params,
            round.runs,
            first.display(),
        );
        let own = (0..round.runs).filter(|run| shard.has(*run)).count();
        ensure!(
            rounds[nth].results.len() == own,
            "{shown}: round {} has {} results instead of {own}; run this shard again",
            nth + 1,
            rounds[nth].results.len(),
        );
    }
    let of = files.len();
    let result = |run: usize| files[run % of].1.rounds[nth].results[run / of].clone();
    Ok(Known { params: round.params.clone(), results: (0..round.runs).map(result).collect() })
}

impl Head {
    /// The first field that differs, with both values.
    pub(super) fn differs(&self, other: &Head) -> Option<(&'static str, String, String)> {
        let text = |text: Option<&str>| text.unwrap_or("none").to_owned();
        let all = |head: &Head| {
            [
                ("the experiment", head.experiment.clone()),
                ("the build", head.build.clone()),
                ("--commit", text(head.commit.as_deref())),
                ("the hash of --file", text(head.file.as_deref())),
                ("seeds", head.seeds.to_string()),
                ("--quick", head.quick.to_string()),
            ]
        };
        let mut pairs = all(self).into_iter().zip(all(other));
        pairs.find(|(a, b)| a != b).map(|((what, a), (_, b))| (what, a, b))
    }
}
