//! `meridian bench planet`: the cost of a simulated request at size.

use std::path::{Path, PathBuf};
use std::time::Duration;

use meridian_perf::planet;

use super::seconds;

#[derive(Debug, clap::Args)]
pub(super) struct Planet {
    /// Requests of each run
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000",
          value_parser = clap::value_parser!(u64).range(1..))]
    requests: Vec<u64>,
    /// Regions, 1 to 30
    #[arg(long, default_value_t = 30)]
    regions: usize,
    /// Replicas of all regions together
    #[arg(long, default_value_t = 3000)]
    replicas: usize,
    /// Simulated time before a run is measured: until then caches and indexes fill up
    #[arg(long, default_value = "15m", value_parser = seconds)]
    warmup: Duration,
    /// Fill the KV of the replicas instead, and measure their memory
    #[arg(long, conflicts_with = "requests")]
    fill: bool,
    /// Output file
    #[arg(long, default_value = "target/bench/planet.json")]
    json: PathBuf,
    /// One run in this process, of this many requests
    #[arg(long, hide = true)]
    one: Option<u64>,
}

impl Planet {
    /// The output file; none for one run.
    pub(super) fn json(&self) -> Option<&Path> {
        self.one.is_none().then_some(&*self.json)
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        let Planet { requests, regions, replicas, warmup, fill, json, one } = self;
        let size = planet::Size { regions, replicas };
        match one {
            Some(requests) => planet::one(size, warmup, requests),
            None => planet::measure(&planet::Options { size, requests, warmup, fill, json }),
        }
    }
}
