//! `meridian up`: regions on this machine, with a load to watch, and an honest end.
//!
//! Engines, gateways, loads, the control plane and the WAN between the regions are processes of
//! their own. The run ends after the time given or when
//! somebody asks for it; either way the load stops first, what is in flight ends, the counts of
//! client, gateways and engines are read and compared, and the gateways are drained. It ended well
//! only if every request did, all counts agree, and every process ended as it should.

mod arrange;
mod beside;
mod board;
pub mod chaos;
mod faults;
mod order;
mod region;
mod start;
mod stop;
mod tenants;
mod verdict;
mod view;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use meridian_wire::wan::KNOWN_RTT_MS;

use crate::{Error, Result};
pub use beside::{Beside, Figures, Second};
pub use start::Clients;
use stop::Stop;
use verdict::{judge, judge_broken, summarize};
use world::World;

/// Between two looks at the gateway.
const TICK: Duration = Duration::from_millis(500);
/// Guards: the longest that requests in flight may take to end, and the gateway to drain.
const DRAIN: Duration = Duration::from_secs(120);
/// The longest that the last counters may take to arrive where they are read.
const SETTLE: Duration = Duration::from_secs(10);
/// The topology in which the first region's gateway serves all regions.
const CENTRAL: &str = "central";
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
    /// The same all day, some of whose clients hang up, and in one region more than it can serve
    /// well.
    Steady,
}

/// The regions to bring up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Their names; several are to be such whose distances are known.
    pub regions: Vec<String>,
    /// Which requests leave a region, where there are several.
    pub topology: String,
    /// How long a day of the clients lasts, where there are several regions.
    pub day: Duration,
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
    /// What to show beside the run.
    pub beside: Option<Beside>,
    /// Ends by itself after this long; none runs until somebody ends it.
    pub duration: Option<Duration>,
    /// The `meridian` to run; none takes this very program.
    pub binary: Option<PathBuf>,
    /// Where llama.cpp is installed, or will be; none takes the usual place.
    pub llamacpp_home: Option<PathBuf>,
    /// libfaketime, where programs are to have clocks that can be set.
    pub clocks: Option<PathBuf>,
    /// Broken streams go on elsewhere.
    pub resume: bool,
    /// Model engines note each request that reaches them in their logs.
    pub log_requests: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            regions: vec!["us".into()],
            topology: "two_layer".into(),
            day: Duration::from_secs(120),
            engines: Engines::Model,
            replicas: 4,
            policy: "meridian".into(),
            time_scale: 1.0,
            demand: Demand::Mixed,
            seed: 1,
            beside: None,
            duration: None,
            binary: None,
            llamacpp_home: None,
            clocks: None,
            resume: false,
            log_requests: false,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What went wrong, a sentence each; nothing when all went well.
    pub faults: Vec<String>,
    /// Something was broken on purpose: counts were not compared, and requests may be lost.
    pub broken: bool,
}

/// Brings the regions up, shows them until the end, and says how it went.
pub async fn run(options: &Options) -> Result<Verdict> {
    validate(options)?;
    let mut stop = Stop::new()?;
    let mut world = tokio::select! {
        world = World::start(options) => world?,
        () = stop.asked() => {
            return Ok(Verdict { faults: vec!["ended before it was up".into()], broken: false });
        }
    };
    world.announce(options);
    let mut faults = Vec::new();
    if let Err(fault) = world.watch(options, &mut stop).await {
        faults.push(fault);
    }
    let reports = world.stop_loads(&mut faults).await;
    match world.settle(&reports).await {
        Ok((seen, counts)) => {
            let all = crate::total::total(&seen);
            match world.orders.is_empty() {
                true => judge(&all, &counts, &reports, &mut faults),
                // The counts of the dead are gone: what is left is shown, and not compared.
                false => judge_broken(&all, &reports, &mut faults),
            }
            summarize(&seen, &counts, &reports);
            let beside = options.beside.as_ref().and_then(|beside| beside.line(world.watched));
            beside.into_iter().for_each(|line| println!("\n{line}"));
        }
        Err(error) => faults.push(error.to_string()),
    }
    world.drain(&mut faults).await;
    if !faults.is_empty() {
        world.fleet.keep_logs();
        faults.push(format!("the logs are in {}", world.fleet.dir().display()));
    }
    Ok(Verdict { faults, broken: !world.orders.is_empty() })
}

fn validate(options: &Options) -> Result<()> {
    let setting = |field, value: String, remedy: &str| {
        Err(Error::Setting { field, value, remedy: remedy.to_owned() })
    };
    if !(1..=64).contains(&options.replicas) {
        return setting("--replicas", options.replicas.to_string(), "use 1 to 64");
    }
    let names = &options.regions;
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    if names.is_empty() || twice.is_some() {
        return setting("--regions", names.join(","), "name each region once, us,eu,asia");
    }
    for name in names {
        if let Err(wrong) = meridian_wire::peer::label("region", name) {
            return setting("--regions", format!("{name:?}"), &wrong.to_string());
        }
    }
    let known =
        |name: &&String| KNOWN_RTT_MS.iter().any(|(a, b, _)| [a, b].contains(&&name.as_str()));
    if let Some(far) = names.iter().find(|name| names.len() > 1 && !known(name)) {
        return setting(
            "--regions",
            far.clone(),
            "distances are known of us, eu and asia; use these",
        );
    }
    if !["two_layer", "region_local", CENTRAL].contains(&options.topology.as_str()) {
        let remedy = "use two_layer, region_local or central";
        return setting("--topology", options.topology.clone(), remedy);
    }
    if options.day.is_zero() {
        return setting("--day", "0s".into(), "use 10s or more");
    }
    let scale = options.time_scale;
    if !(scale > 0.0 && scale.is_finite()) {
        return setting("--time-scale", scale.to_string(), "use a number above 0");
    }
    Ok(())
}
