//! Turns a plan into the simulator's scenario: one cell with one seed.

mod faults;

use std::sync::Arc;

use anyhow::{Context, anyhow};
use meridian_base::{Duration, Rng, mix};
use meridian_engine::{BLOCK_TOKENS, Config, Profile, Terms};
use meridian_protocol::units::Span;
use meridian_routing::{Admission, HeldConfig, ProbeConfig};
use meridian_sim as sim;
use meridian_workload::{Bursts, Generator, Poisson, open_loop};

use super::plan::{Cell, Feed, Plan};
use super::price;
use super::spec::{Fleet, Group, Load, Objective, Place, Speed, System, Topology};
use super::trace::Recorded;

/// The scenario of `cell` under `seed`.
///
/// # Errors
///
/// When an engine's configuration is impossible.
pub fn scenario(plan: &Plan, cell: Cell, seed: u64) -> anyhow::Result<sim::Scenario> {
    let (workload, feeds) = &plan.workloads[cell.workload];
    let measure = workload.measure.unwrap_or(plan.measure);
    let mut loads = Vec::new();
    for (i, (load, feed)) in workload.loads.iter().zip(feeds).enumerate() {
        loads.extend(match feed {
            Feed::Generator(generator) => {
                let rates = load.rates(workload.level);
                sources(i, load, rates.as_deref(), generator, plan, seed)
            }
            Feed::Trace(recorded) => recorded_sources(i, load, recorded, plan, seed)?,
        });
    }
    Ok(sim::Scenario {
        seed,
        regions: regions(plan),
        wan: sim::Wan {
            rtt_ms: workload.rtt_ms.as_ref().unwrap_or(&plan.regions.rtt_ms).clone(),
            jitter: plan.regions.jitter,
            loss: plan.regions.loss,
        },
        replicas: replicas(&plan.fleets[cell.fleet], plan.systems[cell.system].0.whole)?,
        system: system(plan, cell.system)?,
        loads,
        faults: faults::all(plan, cell, measure),
        autoscaler: None,
        racks: plan.fleets[cell.fleet].racks.iter().map(|gbps| sim::Rack { gbps: *gbps }).collect(),
        measure: sim::Measure { warmup: measure.warmup.0, window: measure.window.0 },
        paranoid: false,
    })
}

fn regions(plan: &Plan) -> Vec<sim::Region> {
    let places = plan.regions.regions.iter();
    places.map(|p| sim::Region { name: p.name.clone(), continent: p.continent.clone() }).collect()
}

/// An engine of the group.
///
/// # Errors
/// When the model does not fit the GPU, or a setting is out of its range.
pub fn engine(group: &Group) -> anyhow::Result<Config> {
    let named = || format!("{} on {} with tp {}", group.model, group.gpu, group.tp);
    let mut profile = Profile::named(&group.model, &group.gpu, group.tp)
        .map_err(|e| anyhow!("{e}"))
        .with_context(named)?;
    if let Some(speed) = group.speed {
        profile.terms = terms(speed);
    }
    let mut config = Config::new(profile);
    if let Some(tokens) = group.kv_tokens {
        config = config.with_kv_blocks(tokens / BLOCK_TOKENS);
    }
    config.max_num_batched_tokens =
        group.max_num_batched_tokens.unwrap_or(config.max_num_batched_tokens);
    config.max_num_seqs = group.max_num_seqs.unwrap_or(config.max_num_seqs);
    config.jitter = group.jitter;
    config.validate().map_err(|e| anyhow!("{e}")).with_context(named)?;
    Ok(config)
}

/// The terms of measured step times.
fn terms(speed: Speed) -> Terms {
    Terms {
        step: speed.step_ms / 1e3,
        sequence: speed.sequence_ms / 1e3,
        token: speed.token_ms / 1e3,
        ..Terms::default()
    }
}

/// The replicas by region, and within a region by group; all of them `whole`, or with their roles.
///
/// # Errors
/// When a model does not fit its GPU, or a setting is out of its range.
pub fn replicas(fleet: &Fleet, whole: bool) -> anyhow::Result<Vec<sim::Hardware>> {
    let mut replicas = Vec::new();
    let regions = fleet.groups.first().map_or(0, |g| g.count.len());
    for region in 0..regions {
        for group in &fleet.groups {
            let mut hardware = sim::Hardware::new(region, engine(group)?);
            if let Some(pool) = group.pool.filter(|_| !whole) {
                let transfer =
                    sim::Transfer { gbps: pool.gbps, rack: pool.rack, ..hardware.transfer };
                hardware = sim::Hardware { role: pool.role.0, transfer, ..hardware };
            }
            replicas.extend((0..group.count[region]).map(|_| hardware));
        }
    }
    Ok(replicas)
}

/// Mean cost of a replica in USD an hour over the fleet; `None` without a price.
#[must_use]
pub fn replica_price(fleet: &Fleet) -> Option<f64> {
    let (mut usd, mut replicas) = (0.0, 0.0);
    for group in &fleet.groups {
        let count: f64 = group.count.iter().map(|n| f64::from(*n)).sum();
        usd += count * f64::from(group.tp) * price::usd_per_hour(&group.gpu)?;
        replicas += count;
    }
    Some(usd / replicas)
}

fn system(plan: &Plan, place: usize) -> anyhow::Result<sim::System> {
    let (system, policy, params) = &plan.systems[place];
    let (held, probe) = (&system.held, &system.probe);
    Ok(sim::System {
        name: system.name.clone(),
        policy,
        params: params.clone(),
        admission: admission(system, policy),
        shadow: None,
        topology: topology(&plan.regions.regions, &system.topology)?,
        gateways: system.gateways,
        siblings: system.siblings.map(|s| sim::Siblings { delay: s.delay.0, loss: s.loss }),
        scale_from_zero: None,
        held: HeldConfig {
            max: held.max,
            max_per_tenant: held.max_per_tenant,
            max_wait: held.max_wait.0,
            look_ahead: held.look_ahead,
            patience: held.patience.0,
            promise: held.promise.0,
        },
        probe: ProbeConfig {
            busy: probe.busy.0,
            idle: probe.idle.0,
            down_after: probe.down_after,
            stale: probe.stale.0,
        },
        digests: sim::Digests {
            every: system.digests.every.0,
            on_change: system.digests.on_change.map(|span| span.0),
        },
        news: news(policy),
    })
}

/// How a policy's probes and digests are simulated: one that acts only on news needs each message.
#[must_use]
pub fn news(policy: &meridian_routing::policy::Spec) -> sim::News {
    match policy.name {
        "skywalker_steal" => sim::News::Eager,
        _ => sim::News::Lazy,
    }
}

/// The admission mode of a system.
#[must_use]
pub fn admission(system: &System, policy: &meridian_routing::policy::Spec) -> Admission {
    system.admission.map_or(policy.admission, Admission::from)
}

/// The arrangement of gateways in these regions.
///
/// # Errors
/// When it names another region.
pub fn topology(regions: &[Place], topology: &Topology) -> anyhow::Result<sim::Topology> {
    Ok(match topology {
        Topology::TwoLayer => sim::Topology::TwoLayer,
        Topology::Central(name) if name == "first" => sim::Topology::Central { region: 0 },
        Topology::Central(name) => {
            let region = regions.iter().position(|r| r.name == *name);
            let region = region.with_context(|| {
                let names: Vec<&str> = regions.iter().map(|r| r.name.as_str()).collect();
                format!("topology.central: `{name}` is not a region; use {}", names.join(", "))
            })?;
            sim::Topology::Central { region }
        }
        Topology::RegionLocal => sim::Topology::RegionLocal,
        Topology::Flat => sim::Topology::Flat,
        Topology::Waterfall(above) => sim::Topology::Waterfall { above: *above },
        Topology::Continent(above) => sim::Topology::Continent { above: *above },
        Topology::Oracle(Objective::Ttft(work)) => {
            sim::Topology::Oracle(sim::Objective::Ttft { work: *work })
        }
        Topology::Oracle(Objective::Throughput(balance)) => {
            sim::Topology::Oracle(sim::Objective::Throughput { balance: *balance })
        }
    })
}

/// The topology's name in tables and results.
#[must_use]
pub fn topology_name(topology: &Topology) -> &'static str {
    match topology {
        Topology::TwoLayer => "two_layer",
        Topology::Central(_) => "central",
        Topology::RegionLocal => "region_local",
        Topology::Flat => "flat",
        Topology::Waterfall(_) => "waterfall",
        Topology::Continent(_) => "continent",
        Topology::Oracle(_) => "oracle",
    }
}

/// The load in every region that has clients for it. The seed of arrivals depends on the load and
/// the region, so that adding or removing a load does not change the others.
fn sources(
    place: usize,
    load: &Load,
    rates: Option<&[f64]>,
    generator: &Arc<dyn Generator>,
    plan: &Plan,
    seed: u64,
) -> Vec<sim::Load> {
    let regions = 0..plan.regions.regions.len();
    regions
        .filter_map(|region| {
            let source = match (&load.clients, rates) {
                (Some(clients), _) if clients[region] > 0 => sim::Source::Closed {
                    clients: clients[region],
                    generator: generator.clone(),
                    ramp: load.ramp.0,
                    programs: load.programs,
                    day: None,
                },
                (None, Some(rate)) if rate[region] > 0.0 => {
                    let chance = arrival_seed(seed, place, region);
                    let programs = rate[region] / generator.mean_requests().max(1.0);
                    let region = region as u32;
                    let arrivals =
                        rising(arrivals(load, chance, programs), load.rise, mix(chance, 1));
                    let programs = open_loop(generator.clone(), arrivals, seed, region);
                    sim::Source::Open(Box::new(programs))
                }
                _ => return None,
            };
            Some(sim::Load { region, source, may_run_in: may_run_in(load, region, plan) })
        })
        .collect()
}

/// The regions that may serve the requests of a region; `None` without a rule.
fn may_run_in(load: &Load, region: usize, plan: &Plan) -> Option<Vec<usize>> {
    let places = &plan.regions.regions;
    let served = load.may_run_in.get(&places[region].name)?;
    let found = |name: &String| places.iter().position(|place| place.name == *name);
    Some(served.iter().filter_map(found).collect())
}

/// The seed of an open loop's arrivals in a region: that of the load at `place` in its workload.
#[must_use]
pub fn arrival_seed(seed: u64, place: usize, region: usize) -> u64 {
    mix(mix(seed, place as u64), region as u64)
}

/// The start times of an open loop's programs in a region.
fn arrivals(load: &Load, seed: u64, per_second: f64) -> Box<dyn Iterator<Item = Duration> + Send> {
    match load.bursts {
        Some(bursts) => Box::new(Bursts::from(bursts).arrivals(seed, per_second)),
        None => Box::new(Poisson::new(seed, per_second)),
    }
}

/// The recorded load of every region that has a share of it.
fn recorded_sources(
    place: usize,
    load: &Load,
    recorded: &Recorded,
    plan: &Plan,
    seed: u64,
) -> anyhow::Result<Vec<sim::Load>> {
    let speed = load.trace.as_ref().map_or(1.0, |trace| trace.speed);
    let programs = recorded.programs(speed, &plan.regions.regions, mix(seed, place as u64))?;
    let one = |(region, programs): (usize, Vec<_>)| sim::Load {
        region,
        source: sim::Source::Open(Box::new(programs.into_iter())),
        may_run_in: may_run_in(load, region, plan),
    };
    Ok(programs.into_iter().enumerate().filter(|(_, p)| !p.is_empty()).map(one).collect())
}

/// Drops arrivals so that their rate rises linearly to its final value within `rise`.
fn rising(
    arrivals: impl Iterator<Item = Duration> + Send,
    rise: Option<Span>,
    seed: u64,
) -> impl Iterator<Item = Duration> + Send {
    let rise = rise.map_or(0.0, |span| span.0.as_secs_f64());
    let mut rng = Rng::new(seed);
    arrivals.filter(move |at| {
        let at = at.as_secs_f64();
        at >= rise || rng.unit() * rise < at
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Within the rise half of the arrivals are dropped, with few left at its start; after it none.
    #[test]
    fn a_rate_rises_in_a_straight_line() {
        let every = || (0..4000).map(|i| Duration::from_millis(i * 50));
        let rise = Some(Span::secs(100));
        let kept: Vec<f64> = rising(every(), rise, 1).map(|at| at.as_secs_f64()).collect();
        let within = |from: f64, to: f64| kept.iter().filter(|at| (from..to).contains(*at)).count();
        assert_eq!(within(100.0, 200.0), 2000);
        assert!((900..1100).contains(&within(0.0, 100.0)), "{}", within(0.0, 100.0));
        assert!(within(0.0, 20.0) < 60, "{}", within(0.0, 20.0));
        assert_eq!(rising(every(), None, 1).count(), 4000);
    }
}
