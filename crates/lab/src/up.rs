//! `meridian up`: a region on this machine, with a load to watch, and an honest end.
//!
//! Engines, gateway and load are processes of their own. The run ends after the time given or when
//! somebody asks for it; either way the load stops first, what is in flight ends, the counts of
//! client, gateway and engines are read and compared, and the gateway is drained. It ended well
//! only if every request did, all counts agree, and every process ended as it should.

mod region;
mod start;
mod stop;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Result};
use region::Region;
use stop::Stop;
use verdict::{judge, summarize};

/// Between two looks at the gateway.
const TICK: Duration = Duration::from_millis(500);
/// Guards: the longest that requests in flight may take to end, and the gateway to drain.
const DRAIN: Duration = Duration::from_secs(120);
/// The longest that the last counters may take to arrive where they are read.
const SETTLE: Duration = Duration::from_secs(10);
/// A load without an end runs for this long.
const WITHOUT_END: Duration = Duration::from_secs(365 * 24 * 3600);

/// What kind of replicas a region has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engines {
    /// Model engines: Llama-3.1-8B on L4.
    Model,
    /// Real llama.cpp servers with a tiny model.
    LlamaCpp,
}

/// How much is asked of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: the region is for the user's own requests.
    None,
    /// A few sessions.
    Light,
    /// Sessions, trees and chats, enough to keep the replicas busy.
    Mixed,
}

/// A region to bring up.
#[derive(Debug, Clone)]
pub struct Options {
    /// What kind of replicas.
    pub engines: Engines,
    /// How many.
    pub replicas: u32,
    /// The gateway's policy.
    pub policy: String,
    /// How many times faster than real time model engines run.
    pub time_scale: f64,
    /// The load.
    pub demand: Demand,
    /// The load's seed.
    pub seed: u64,
    /// Ends by itself after this long; none runs until somebody ends it.
    pub duration: Option<Duration>,
    /// The `meridian` to run; none takes this very program.
    pub binary: Option<PathBuf>,
    /// Where llama.cpp is installed, or will be; none takes the usual place.
    pub llamacpp_home: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engines: Engines::Model,
            replicas: 4,
            policy: "meridian".into(),
            time_scale: 1.0,
            demand: Demand::Mixed,
            seed: 1,
            duration: None,
            binary: None,
            llamacpp_home: None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What went wrong, a sentence each; nothing when all went well.
    pub faults: Vec<String>,
}

/// Brings a region up, shows it until the end, and says how it went.
pub async fn run(options: &Options) -> Result<Verdict> {
    validate(options)?;
    let mut stop = Stop::new()?;
    let mut region = tokio::select! {
        region = Region::start(options) => region?,
        () = stop.asked() => return Ok(Verdict { faults: vec!["ended before it was up".into()] }),
    };
    region.announce(options);
    let mut faults = Vec::new();
    if let Err(fault) = region.watch(options.duration, &mut stop).await {
        faults.push(fault);
    }
    let report = region.stop_load(&mut faults).await;
    match region.settle(report.as_ref()).await {
        Ok((status, counts)) => {
            judge(&status, &counts, report.as_ref(), &mut faults);
            summarize(&status, &counts, report.as_ref());
        }
        Err(error) => faults.push(error.to_string()),
    }
    region.drain(&mut faults).await;
    if !faults.is_empty() {
        region.fleet.keep_logs();
        faults.push(format!("the logs are in {}", region.fleet.dir().display()));
    }
    Ok(Verdict { faults })
}

fn validate(options: &Options) -> Result<()> {
    let setting = |field, value: String, remedy: &str| {
        Err(Error::Setting { field, value, remedy: remedy.to_owned() })
    };
    if !(1..=64).contains(&options.replicas) {
        return setting("--replicas", options.replicas.to_string(), "use 1 to 64");
    }
    let scale = options.time_scale;
    if !(scale > 0.0 && scale.is_finite()) {
        return setting("--time-scale", scale.to_string(), "use a number above 0");
    }
    Ok(())
}
