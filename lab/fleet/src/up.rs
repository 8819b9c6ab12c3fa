//! `meridian up`: regions on this machine, with a load to watch, and a check of the results.
//!
//! Engines, gateways, loads, the control plane and the WAN between the regions are separate
//! processes. The run ends after the given time or on request. Either way the load stops first,
//! requests in flight end, the counts of client, gateways and engines are read and compared, and
//! the gateways are drained. The run succeeds only if every request did, all counts agree, and
//! every process ended as expected.

mod acts;
mod arrange;
mod beside;
mod board;
pub mod chaos;
pub mod demo;
mod faults;
mod hours;
mod names;
mod order;
mod paths;
mod planes;
mod pools;
mod record;
mod region;
mod side_row;
mod start;
mod stop;
mod tenants;
mod verdict;
mod view;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use meridian_wan::config::KNOWN_RTT_MS;

use crate::{Error, Result, page};
pub use beside::{Beside, Figures, Second};
pub use pools::Pools;
pub use start::Clients;
use stop::Stop;
use verdict::{judge, judge_broken, summarize};
use world::World;

/// Interval between two polls of the gateway.
const TICK: Duration = Duration::from_millis(500);
/// Guards: the longest that requests in flight may take to end, and the gateway to drain.
const DRAIN: Duration = Duration::from_secs(120);
/// Longest wait for the last counter updates.
const SETTLE: Duration = Duration::from_secs(10);
/// The topology in which the first region's gateway serves all regions.
const CENTRAL: &str = "central";
/// Most gateways in a region.
const MOST_GATEWAYS: u32 = 8;
/// Duration of a load without an end.
const WITHOUT_END: Duration = Duration::from_secs(365 * 24 * 3600);

/// Kind of a region's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engines {
    /// Model engines: Llama-3.1-8B on L4.
    Model,
    /// Real llama.cpp servers with a tiny model.
    LlamaCpp,
}

/// How much load the regions get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// None: the region is for the user's own requests.
    None,
    /// A few sessions.
    Light,
    /// Sessions, trees and chats, enough to keep the replicas busy; with pools also questions about
    /// long documents.
    Mixed,
    /// What the demo shows: fewer clients than mixed, so that engines are busy and this machine is
    /// not. There are no tenants, as a request that a rule binds can't move elsewhere.
    Demo,
    /// The same all day, with some clients that disconnect, and in one region more than it can
    /// serve well.
    Steady,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Their names; if there are several, their distances must be known.
    pub regions: Vec<String>,
    /// Which requests are forwarded, if there are several regions.
    pub topology: String,
    /// Length of the clients' day, if there are several regions.
    pub day: Duration,
    /// The share of the clients that is active at the quietest time of their day.
    pub night: f64,
    /// Gateways in each region.
    pub gateways: u32,
    /// Kind of replicas.
    pub engines: Engines,
    /// Replicas per region.
    pub replicas: u32,
    /// The region whose replicas have roles, if there is one.
    pub pools: Option<Pools>,
    /// The gateway's policy.
    pub policy: String,
    /// The policy that decides too and is not followed, if any.
    pub shadow: Option<String>,
    /// Speed of model engines relative to real time.
    pub time_scale: f64,
    /// Whether several regions have three control planes on an etcd, in place of one on a file.
    pub etcd: bool,
    /// Whether the first gateway listens at the documented address, if it is free.
    pub usual_port: bool,
    /// The load.
    pub demand: Demand,
    /// The load's seed.
    pub seed: u64,
    /// Clients start within this time, evenly spread.
    pub ramp: Duration,
    /// Whether loads write a line for each finished request, as it finishes.
    pub follow: bool,
    /// An arrangement to compare the run with.
    pub beside: Option<Beside>,
    /// Duration; none runs until it is stopped.
    pub duration: Option<Duration>,
    /// A folder for each gateway's access log, journal and traces, whose counts are compared, too.
    pub record: Option<PathBuf>,
    /// The `meridian` to run; none runs this program itself.
    pub binary: Option<PathBuf>,
    /// Where llama.cpp is or will be installed; none uses the default place.
    pub llamacpp_home: Option<PathBuf>,
    /// libfaketime, if programs should have adjustable clocks.
    pub clocks: Option<PathBuf>,
    /// Whether broken streams are resumed on another replica.
    pub resume: bool,
    /// Whether model engines log each request that reaches them.
    pub log_requests: bool,
    /// Whether the KV of a single region with pools crosses a relay that can be cut.
    pub relays_kv: bool,
    /// Further arguments of model engines with a role.
    pub pool_args: Vec<String>,
    /// How long those keep KV for a decode replica, and the gateway takes it to be kept.
    pub kv_lease: Duration,
}

/// The default of engines and gateways.
const KV_LEASE: Duration = Duration::from_secs(30);

impl Default for Options {
    fn default() -> Options {
        Options {
            regions: vec!["us".into()],
            topology: "two_layer".into(),
            day: Duration::from_secs(120),
            night: 0.3,
            gateways: 1,
            engines: Engines::Model,
            replicas: 4,
            pools: None,
            policy: "meridian".into(),
            shadow: None,
            time_scale: 1.0,
            etcd: false,
            usual_port: false,
            demand: Demand::Mixed,
            seed: 1,
            ramp: Duration::ZERO,
            follow: false,
            beside: None,
            duration: None,
            record: None,
            binary: None,
            llamacpp_home: None,
            clocks: None,
            resume: false,
            log_requests: false,
            relays_kv: false,
            pool_args: Vec::new(),
            kv_lease: KV_LEASE,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// All problems, one sentence each; empty if there were none.
    pub faults: Vec<String>,
    /// A fault was injected: counts were not compared, and requests may be lost.
    pub broken: bool,
}

/// Starts the regions, shows them until the end, and returns the result.
pub async fn run(options: &Options) -> Result<Verdict> {
    validate(options)?;
    let mut stop = Stop::new()?;
    let mut world = tokio::select! {
        world = World::start(options) => world?,
        () = stop.asked() => {
            return Ok(Verdict { faults: vec!["exited before it was ready".into()], broken: false });
        }
    };
    world.announce(options);
    let mut faults = Vec::new();
    if let Err(fault) = world.watch(options, &mut stop).await {
        faults.push(fault);
    }
    let reports = world.stop_loads(&mut faults).await;
    let mut counted = None;
    match world.settle(&reports).await {
        Ok((seen, counts, legs)) => {
            let all = crate::total::total(&seen);
            match world.orders.is_empty() {
                true => {
                    judge(&all, &counts, &reports, &mut faults);
                    faults.extend(legs.iter().flat_map(|legs| legs.faults(crate::legs::KV_SCALE)));
                }
                // The counts of dead processes are gone: the rest is shown, and not compared.
                false => judge_broken(&all, &reports, &mut faults),
            }
            summarize(&seen, &counts, &reports);
            if let (Some(legs), Some(pools)) = (legs, &options.pools) {
                println!("\n{}", page::legs(&legs, crate::legs::KV_SCALE, world.orders.is_empty()));
                let split = page::split(&legs, &pools.region, &seen);
                split.into_iter().for_each(|line| println!("{line}"));
            }
            counted = world.counted(&seen, &mut faults).await;
            let beside = options.beside.as_ref().and_then(|beside| beside.line(world.watched));
            beside.into_iter().for_each(|line| println!("\n{line}"));
        }
        Err(error) => faults.push(error.to_string()),
    }
    world.drain(&mut faults).await;
    if let Some(record) = &world.record {
        faults.extend(record.judge(counted, verdict::clients(&reports).as_ref()));
    }
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
    if !(1..=MOST_GATEWAYS).contains(&options.gateways) {
        return setting("--gateways", options.gateways.to_string(), "use 1 to 8");
    }
    if options.gateways > 1 && options.topology == CENTRAL {
        return setting("--gateways", options.gateways.to_string(), "use 1 with central");
    }
    let names = &options.regions;
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    if names.is_empty() || twice.is_some() {
        return setting("--regions", names.join(","), "name each region once, as in us,eu,asia");
    }
    for name in names {
        if let Err(wrong) = meridian_protocol::peer::label("region", name) {
            return setting("--regions", format!("{name:?}"), &wrong.to_string());
        }
    }
    let known =
        |name: &&String| KNOWN_RTT_MS.iter().any(|(a, b, _)| [a, b].contains(&&name.as_str()));
    if let Some(far) = names.iter().find(|name| names.len() > 1 && !known(name)) {
        return setting(
            "--regions",
            far.clone(),
            "distances are known only for us, eu and asia; use these",
        );
    }
    if !["two_layer", "region_local", CENTRAL].contains(&options.topology.as_str()) {
        let remedy = "use two_layer, region_local or central";
        return setting("--topology", options.topology.clone(), remedy);
    }
    if let Some(pools) = &options.pools {
        let given = || pools.to_string();
        if !names.contains(&pools.region) {
            return setting("--pools", given(), "name one of --regions");
        }
        if options.engines != Engines::Model {
            return setting("--pools", given(), "only model engines hand over KV");
        }
    }
    if options.day.is_zero() {
        return setting("--day", "0s".into(), "use 10s or more");
    }
    if !(0.0..=1.0).contains(&options.night) {
        return setting("--night", options.night.to_string(), "use 0 to 1");
    }
    let scale = options.time_scale;
    if !(scale > 0.0 && scale.is_finite()) {
        return setting("--time-scale", scale.to_string(), "use a number above 0");
    }
    Ok(())
}
