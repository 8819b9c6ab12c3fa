//! Divides the runs of an experiment among machines, and merges their results to the same bytes.
//!
//! A *round* is a set of runs that do not depend on each other: all cells of a grid under all seeds.
//! Shard `I/N` runs every N-th run of a round and writes their results to `shard-I-of-N.json`. A
//! merge runs the experiment's own code, which gets the results from the files in place of the
//! simulator's. As numbers are stored bit by bit, its report can't tell the difference.
//!
//! Some experiments choose runs by the results of others. Their later rounds need all of the earlier
//! results: once the files of all shards are in the folder, the same commands run the next round.
//!
//! Nothing here starts processes or copies files. A scheduler of batch jobs does
//! (`examples/experiment-shards`).

mod files;
mod part;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail, ensure};
use meridian_tools::parallel;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::params;
use super::runner::Progress;

pub use part::{merge, share};

/// The most shards of an experiment.
const MOST: usize = 1 << 16;

/// A part of an experiment's runs: every `of`-th one, from `index` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, from 0 and below `of`.
    pub index: usize,
    /// Number of shards.
    pub of: usize,
}

impl Shard {
    /// The name of its file.
    #[must_use]
    pub fn file(self) -> String {
        format!("shard-{}-of-{}.json", self.index, self.of)
    }

    fn has(self, run: usize) -> bool {
        run % self.of == self.index
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        let parts = text.split_once('/').map(|(index, of)| (number(index), number(of)));
        match parts {
            Some((Some(index), Some(of))) if index < of && of <= MOST => Ok(Shard { index, of }),
            _ => Err(format!(
                "`{text}` is not a shard; write I/N with I from 0 to N - 1 and N up to {MOST}, as in \
                 0/4"
            )),
        }
    }
}

/// What all shards of one experiment have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The experiment's name.
    pub experiment: String,
    /// The build of `meridian`.
    pub build: String,
    /// The commit that is judged, for an experiment that draws its workloads by it.
    pub commit: Option<String>,
    /// A hash of the file that was given in place of the experiment's own.
    pub file: Option<String>,
    /// Number of seeds.
    pub seeds: u32,
    /// Whether it is the small variant.
    pub quick: bool,
}

/// A shard's part of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Round {
    /// A hash of the parameters and the names of all runs.
    params: String,
    /// Runs of all shards.
    runs: usize,
    /// The results of this shard's runs, in order.
    results: Vec<Value>,
}

/// All results of a round, by run.
#[derive(Debug)]
struct Known {
    params: String,
    results: Vec<Value>,
}

/// Where the results of an experiment's runs come from.
#[derive(Debug)]
pub struct Runs {
    /// The rounds whose results are known already.
    known: Vec<Known>,
    /// Runs what is not known: all of it, or a shard's part of the next round.
    rest: Rest,
    taken: Mutex<Taken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    All,
    Part(Shard),
    Nothing,
}

#[derive(Debug, Default)]
struct Taken {
    /// Rounds so far.
    rounds: usize,
    /// The parts that were run.
    parts: Vec<Round>,
}

/// Ends an experiment's code after a shard's part of a round.
#[derive(Debug)]
struct Partial;

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rest of the experiment needs the results of all shards")
    }
}

impl std::error::Error for Partial {}

impl Runs {
    fn new(known: Vec<Known>, rest: Rest) -> Runs {
        Runs { known, rest, taken: Mutex::default() }
    }

    /// All of them run here and now.
    #[must_use]
    pub fn whole() -> Runs {
        Runs::new(Vec::new(), Rest::All)
    }

    /// The parts of rounds that a shard has run.
    fn into_parts(self) -> Vec<Round> {
        self.taken.into_inner().unwrap_or_else(PoisonError::into_inner).parts
    }

    /// The results of a round: `run` of every number below the count of `names`, on all cores, in
    /// order.
    ///
    /// # Errors
    /// Those of `run`; `Partial` in a shard; in a merge, other parameters or too few rounds.
    ///
    /// # Panics
    /// When `run` does.
    pub(super) fn round<T: Serialize + DeserializeOwned + Send>(
        &self,
        params: &str,
        names: &[String],
        progress: &Progress<'_>,
        run: impl Fn(usize) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<Vec<T>> {
        let done = AtomicUsize::new(0);
        let one = |nth: usize, count: usize| {
            let result = run(nth).with_context(|| names[nth].clone());
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, count, &names[nth]);
            result
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = taken.rounds;
        taken.rounds += 1;
        if self.rest == Rest::All {
            return parallel(names.len(), |nth| one(nth, names.len())).into_iter().collect();
        }
        let params = params::of_text(&format!("{params}\n{}", names.join("\n")));
        match (self.known.get(nth), self.rest) {
            (Some(known), _) => known.read(nth, &params, names.len()),
            (None, Rest::Part(shard)) => {
                let own: Vec<usize> = (0..names.len()).filter(|run| shard.has(*run)).collect();
                let results = parallel(own.len(), |i| -> anyhow::Result<Value> {
                    Ok(serde_json::to_value(one(own[i], own.len())?)?)
                });
                let results = results.into_iter().collect::<anyhow::Result<Vec<Value>>>()?;
                taken.parts.push(Round { params, runs: names.len(), results });
                Err(Partial.into())
            }
            (None, _) => bail!(
                "the shards have no results of round {}, whose runs depend on those of round {nth}; \
                 put the files of all shards into one folder, run all shards again with --out on \
                 it, and merge then",
                nth + 1,
            ),
        }
    }
}

impl Known {
    fn read<T: DeserializeOwned>(
        &self,
        nth: usize,
        params: &str,
        runs: usize,
    ) -> anyhow::Result<Vec<T>> {
        ensure!(
            self.params == params && self.results.len() == runs,
            "round {}: the shards have {} runs with parameters {}, this build has {runs} with \
             {params}; run all shards again with it",
            nth + 1,
            self.results.len(),
            self.params,
        );
        let read = |value: &Value| T::deserialize(value);
        let all: Result<Vec<T>, _> = self.results.iter().map(read).collect();
        all.with_context(|| format!("round {}: a result can't be read", nth + 1))
    }
}
