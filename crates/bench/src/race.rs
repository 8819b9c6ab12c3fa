//! The gateway beside others, in one run on one machine.

use std::path::PathBuf;
use std::time::Duration;

/// A race.
#[derive(Clone, Debug)]
pub struct Options {
    /// Binary of the gateway under test.
    pub meridian: PathBuf,
    /// Rounds after the warm-up.
    pub rounds: u32,
    /// Length of one measurement.
    pub each: Duration,
    /// Systems to race; empty for all.
    pub only: Vec<String>,
    /// Where the results go.
    pub json: PathBuf,
}

/// Races the systems, prints the table and writes the results.
pub fn run(options: Options) -> anyhow::Result<()> {
    anyhow::bail!("no system of {:?} is known", options.only)
}
