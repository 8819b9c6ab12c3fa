//! Random scenarios from a seed: every parameter varies, to test invariants and not to measure.
//!
//! One number determines regions, network, fleet, system, loads and faults, so a seed reproduces
//! its failure. The worlds are small and harsh: little KV, several faults a minute.

mod pairs;

use std::sync::Arc;

use meridian_base::{Duration, Rng, Time};
use meridian_engine::{Config, Profile};
use meridian_rivals::EVERY;
use meridian_routing::policy::Params;
use meridian_routing::{Admission, HeldConfig, ProbeConfig};
use meridian_workload::{Chat, Generator, Mixed, Sessions, Tree};

use crate::scenario::{
    Autoscaler, Digests, Fault, Hardware, Load, Measure, News, Region, Scenario, Siblings, Source,
    System, Topology, Wan,
};

pub use pairs::paired;

/// The scenario of a seed.
#[must_use]
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed).fork(0x0053_5741_524D);
    let regions = 1 + rng.below(4);
    let measure = Measure {
        warmup: Duration::from_secs(2),
        window: Duration::from_secs(10 + rng.below(20) as u64),
    };
    let replicas = replicas(&mut rng, regions);
    let faults = faults(&mut rng, regions, replicas.len(), measure);
    let system = system(&mut rng, regions);
    Scenario {
        seed,
        regions: (0..regions).map(|at| region(at, &mut rng)).collect(),
        wan: wan(&mut rng, regions),
        loads: (0..regions).map(|at| load(&mut rng, at, regions)).collect(),
        faults,
        system,
        autoscaler: (rng.below(4) == 0).then(|| autoscaler(&mut rng)),
        racks: Vec::new(),
        replicas,
        measure,
        paranoid: true,
    }
}

fn region(at: usize, rng: &mut Rng) -> Region {
    Region { name: format!("region-{at}"), continent: format!("continent-{}", rng.below(2)) }
}

fn wan(rng: &mut Rng, regions: usize) -> Wan {
    // Each pair's RTT is drawn separately, the same in both directions.
    let draw = Rng::new(rng.next_u64());
    let rtt = |a: usize, b: usize| match a == b {
        true => 1.0,
        false => 5.0 + 295.0 * draw.fork((a.min(b) * 64 + a.max(b)) as u64).unit(),
    };
    let row = |from| (0..regions).map(|to| rtt(from, to)).collect();
    let rtt_ms = (0..regions).map(row).collect();
    let jitter = if rng.below(2) == 0 { 0.0 } else { rng.unit() * 0.5 };
    let loss = if rng.below(2) == 0 { 0.0 } else { rng.unit() * 0.02 };
    Wan { rtt_ms, jitter, loss }
}

fn replicas(rng: &mut Rng, regions: usize) -> Vec<Hardware> {
    let gpus = ["l4", "a100", "h100"];
    let profile = |rng: &mut Rng| {
        let gpu = gpus[rng.below(gpus.len())];
        Profile::named("llama-3.1-8b", gpu, 1).expect("it fits each of them")
    };
    let common = profile(rng);
    let mixed = rng.below(3) == 0;
    let mut all = Vec::new();
    for region in 0..regions {
        for _ in 0..1 + rng.below(3) {
            let engine = Config::new(if mixed { profile(rng) } else { common });
            // From enough for three requests to enough for hundreds.
            let blocks = [600, 1500, 6000][rng.below(3)].min(engine.kv_blocks);
            let jitter = if rng.below(3) == 0 { 0.1 } else { 0.0 };
            let engine = Config { jitter, ..engine.with_kv_blocks(blocks) };
            all.push(Hardware::new(region, engine));
        }
    }
    all
}

fn system(rng: &mut Rng, regions: usize) -> System {
    let policy = EVERY[rng.below(EVERY.len())];
    let admission = match rng.below(5) {
        0 => Admission::Blind,
        1 => Admission::Outstanding { max: 1 + rng.below(40) as u32 },
        2 => Admission::Pending,
        3 => Admission::PendingKv,
        _ => policy.admission,
    };
    let topology = match rng.below(7) {
        0 => Topology::Central { region: rng.below(regions) },
        1 => Topology::RegionLocal,
        2 => Topology::Flat,
        3 => Topology::Waterfall { above: 0.8 },
        4 => Topology::Continent { above: 0.8 },
        _ => Topology::TwoLayer,
    };
    let held = HeldConfig {
        max: [2, 64, 1024][rng.below(3)],
        max_wait: Duration::from_secs([1, 10, 120][rng.below(3)]),
        ..HeldConfig::default()
    };
    System {
        name: policy.name.to_owned(),
        policy,
        params: Params::defaults(policy),
        admission,
        shadow: None,
        topology,
        gateways: 1 + rng.below(2) as u32,
        siblings: siblings(rng.fork(0x5349_424C)),
        held,
        scale_from_zero: scale_from_zero(rng.fork(0x5A45_524F)),
        probe: ProbeConfig {
            busy: Duration::from_millis([20, 100, 1000][rng.below(3)]),
            ..ProbeConfig::default()
        },
        digests: Digests {
            every: Duration::from_millis([20, 100, 500][rng.below(3)]),
            on_change: (rng.below(2) == 0).then_some(Duration::from_millis(20)),
        },
        news: if rng.below(2) == 0 { News::Eager } else { News::Lazy },
    }
}

/// Shorter and longer than the queue's time, than an outage and than an engine's start. From a random
/// stream of its own.
fn scale_from_zero(mut rng: Rng) -> Option<Duration> {
    (rng.below(2) == 0).then(|| Duration::from_secs([1, 5, 20, 300][rng.below(4)]))
}

/// From a random stream of its own, so that earlier draws of a seed stay unchanged.
fn siblings(mut rng: Rng) -> Option<Siblings> {
    let delay = Duration::from_millis([0, 1, 5, 50][rng.below(4)]);
    let loss = [0.0, 0.0, 0.05][rng.below(3)];
    (rng.below(2) == 0).then_some(Siblings { delay, loss })
}

fn load(rng: &mut Rng, region: usize, regions: usize) -> Load {
    let generator: Arc<dyn Generator> = match rng.below(4) {
        0 => Arc::new(Sessions::default()),
        1 => Arc::new(Tree::default()),
        2 => Arc::new(Chat { max_tokens: 300, ..Chat::default() }),
        _ => Arc::new(Mixed::new(vec![
            Box::new(Sessions::default()),
            Box::new(Tree { branch: 4, ..Tree::default() }),
        ])),
    };
    let clients = 1 + rng.below(30) as u32;
    // A rule that keeps a region's requests in part of the world: most often its own region, at
    // times another, and at times nowhere.
    let kept = rng.below(3) == 0;
    let mut rule = rng.fork(0x5255_4C45);
    let home = rule.below(4) > 0;
    let mut may = |r: &usize| *r == region && home || rule.below(2) == 0;
    let may_run_in = kept.then(|| (0..regions).filter(&mut may).collect());
    // A refused client retries at once, for ever.
    let programs = kept.then_some(20);
    let (ramp, day) = (Duration::from_secs(1), None);
    let source = Source::Closed { clients, generator, ramp, programs, day };
    Load { region, source, may_run_in }
}

fn faults(rng: &mut Rng, regions: usize, replicas: usize, measure: Measure) -> Vec<(Time, Fault)> {
    let span = (measure.warmup + measure.window).as_millis() as usize;
    let mut faults = Vec::new();
    for _ in 0..rng.below(6) {
        let from = rng.below(span) as u64;
        let until = from + 200 + rng.below(6000) as u64;
        let (breaks, mends) = fault(rng, regions, replicas);
        faults.push((Time::from_millis(from), breaks));
        faults.push((Time::from_millis(until), mends));
    }
    // From a separate random stream, so that earlier draws of a seed stay unchanged.
    let mut stops = rng.fork(0x5354_4F50);
    for _ in 0..stops.below(4) {
        let from = stops.below(span) as u64;
        // From unnoticeable to noticed by all.
        let until = from + [100, 900, 2_100, 4_000, 7_000, 12_000][stops.below(6)];
        let (breaks, mends) = stop(&mut stops, regions, replicas);
        faults.push((Time::from_millis(from), breaks));
        faults.push((Time::from_millis(until), mends));
    }
    faults.sort_by_key(|f| f.0);
    faults
}

/// Faults that suspend, slow down or reload.
fn stop(rng: &mut Rng, regions: usize, replicas: usize) -> (Fault, Fault) {
    let (replica, region, other) = (rng.below(replicas), rng.below(regions), rng.below(regions));
    match rng.below(8) {
        0..3 => (Fault::ReplicaStopped(replica), Fault::ReplicaContinued(replica)),
        3..6 => (Fault::GatewaysStopped(region), Fault::GatewaysContinued(region)),
        6 => (Fault::ControlDown, Fault::ControlUp),
        _ => {
            let by = Duration::from_millis(rng.below(600) as u64);
            (Fault::LinkSlow(region, other, by), Fault::LinkSlow(region, other, Duration::ZERO))
        }
    }
}

fn fault(rng: &mut Rng, regions: usize, replicas: usize) -> (Fault, Fault) {
    let (replica, region) = (rng.below(replicas), rng.below(regions));
    match rng.below(5) {
        0 => (Fault::ReplicaDown(replica), Fault::ReplicaUp(replica)),
        1 => {
            let factor = 1.0 + rng.unit() * 9.0;
            (Fault::ReplicaSlow(replica, factor), Fault::ReplicaSlow(replica, 1.0))
        }
        2 => (Fault::GatewaysDown(region), Fault::GatewaysUp(region)),
        3 => (Fault::RegionDown(region), Fault::RegionUp(region)),
        _ => {
            let other = rng.below(regions);
            (Fault::LinkDown(region, other), Fault::LinkUp(region, other))
        }
    }
}

fn autoscaler(rng: &mut Rng) -> Autoscaler {
    Autoscaler {
        target_outstanding: 2.0 + rng.unit() * 20.0,
        every: Duration::from_secs(1),
        provisioning: Duration::from_secs(rng.below(8) as u64),
        cooldown: Duration::from_secs(3),
        min: 1,
        max: 4,
    }
}
