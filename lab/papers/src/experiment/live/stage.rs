//! Turns a plan into processes: one cell with one seed.

use std::time::Duration;

use anyhow::{Context as _, bail};
use meridian_engine::BLOCK_TOKENS;
use meridian_fleet::{EngineSpec, GatewaySpec, Post, Stage, StageLoad};
use meridian_protocol::admin::Role;
use meridian_protocol::policy::{Policy, Scalar};

use crate::experiment::build;
use crate::experiment::plan::{Cell, Plan};
use crate::experiment::spec::{Fleet, Load, Measure, System, Topology, Workload};

/// Longer than any reply takes: requests sent within the window run to their end.
const DRAIN: &str = "500s";

/// The processes of `cell` under `seed`.
///
/// # Errors
/// When the cell has a part that only the simulator knows.
pub(super) fn stage(plan: &Plan, cell: Cell, seed: u64) -> anyhow::Result<Stage> {
    let (workload, _) = &plan.workloads[cell.workload];
    let (system, ..) = &plan.systems[cell.system];
    let Measure { warmup, window } = workload.measure.unwrap_or(plan.measure);
    let fleet = &plan.fleets[cell.fleet];
    if !fleet.degraded.is_empty() {
        bail!("fleets ({}).degraded: only simulated; name other fleets in live.fleets", fleet.name);
    }
    if !fleet.racks.is_empty() {
        bail!("fleets ({}).racks: only simulated; name other fleets in live.fleets", fleet.name);
    }
    let ruled = workload.loads.iter().any(|load| !load.may_run_in.is_empty());
    if ruled || !workload.faults.is_empty() {
        bail!(
            "workloads ({}): faults and may_run_in are only simulated; name others in live.workloads",
            workload.name
        );
    }
    let engines = engines(fleet, system.whole);
    let regions: Vec<usize> = engines.iter().map(|(region, _)| *region).collect();
    let gateways = gateways(plan, system, &regions)?;
    let mut loads = Vec::new();
    for (i, load) in workload.loads.iter().enumerate() {
        let field = || format!("workloads ({}).loads[{i}]", workload.name);
        let cell = (plan, gateways.as_slice(), workload);
        loads.extend(crowds(load, cell, seed, i, loads.len()).with_context(field)?);
    }
    Ok(Stage {
        regions: plan.regions.regions.iter().map(|place| place.name.clone()).collect(),
        rtt_ms: plan.regions.rtt_ms.clone(),
        engines,
        gateways,
        loads,
        llamacpp: None,
        warmup: warmup.0,
        window: window.0,
    })
}

/// Engines with their regions, in the simulator's order; all of them `whole`, or with their roles.
fn engines(fleet: &Fleet, whole: bool) -> Vec<(usize, EngineSpec)> {
    let mut engines = Vec::new();
    let regions = fleet.groups.first().map_or(0, |group| group.count.len());
    for region in 0..regions {
        for group in &fleet.groups {
            let mut args = vec!["--tp".to_owned(), group.tp.to_string()];
            args.extend(["--jitter".to_owned(), group.jitter.to_string()]);
            if let Some(tokens) = group.max_num_batched_tokens {
                args.extend(["--max-batched-tokens".to_owned(), tokens.to_string()]);
            }
            let pool = group.pool.filter(|_| !whole);
            if let Some(pool) = pool {
                args.extend(["--kv-link-gbps".to_owned(), pool.gbps.to_string()]);
            }
            for _ in 0..group.count[region] {
                let spec = EngineSpec {
                    role: pool.map_or(Role::Both, |pool| pool.role.0),
                    model: group.model.clone(),
                    gpu: group.gpu.clone(),
                    kv_blocks: group.kv_tokens.map(|tokens| tokens / BLOCK_TOKENS),
                    max_num_seqs: group.max_num_seqs,
                    seed: engines.len() as u64,
                    args: args.clone(),
                    ..EngineSpec::default()
                };
                engines.push((region, spec));
            }
        }
    }
    engines
}

/// Gateways with their replicas and peers, as the simulator introduces them.
fn gateways(plan: &Plan, system: &System, engines: &[usize]) -> anyhow::Result<Vec<Post>> {
    let all = plan.regions.regions.len();
    let (places, sees_all, forwards) = match &system.topology {
        Topology::Central(name) => {
            let named = plan.regions.regions.iter().position(|region| region.name == *name);
            (vec![named.unwrap_or(0)], true, false)
        }
        Topology::Flat => ((0..all).collect(), true, false),
        Topology::RegionLocal => ((0..all).collect(), false, false),
        Topology::TwoLayer | Topology::Waterfall(_) => ((0..all).collect::<Vec<_>>(), false, true),
        other => bail!(
            "systems ({}).topology: {other:?} has no live form; leave it out of live.systems",
            system.name
        ),
    };
    let each = system.gateways as usize;
    let spec = gateway_spec(system)?;
    let posts = places.iter().flat_map(|region| std::iter::repeat_n(*region, each));
    let regions: Vec<usize> = posts.collect();
    let post = |(at, region): (usize, &usize)| {
        let sees = |engine: &usize| sees_all || engines[*engine] == *region;
        // Gateways of a region pair up with those of another.
        let meets =
            |peer: &usize| forwards && regions[*peer] != *region && peer % each == at % each;
        Post {
            region: *region,
            spec: spec.clone(),
            replicas: (0..engines.len()).filter(sees).collect(),
            peers: (0..regions.len()).filter(meets).collect(),
            digests: Some(system.digests.every.0),
        }
    };
    Ok(regions.iter().enumerate().map(post).collect())
}

/// A gateway's settings. JSON is YAML.
fn gateway_spec(system: &System) -> anyhow::Result<GatewaySpec> {
    let topology = match &system.topology {
        Topology::TwoLayer => "two_layer".to_owned(),
        Topology::Waterfall(above) => format!("{{waterfall: {above}}}"),
        _ => "region_local".to_owned(),
    };
    let admission = system.admission.map(|mode| serde_json::to_string(&mode)).transpose()?;
    let (held, probe) =
        (serde_json::to_string(&system.held)?, serde_json::to_string(&system.probe)?);
    Ok(GatewaySpec {
        topology,
        policy: serde_json::to_string(&system.policy)?,
        admission,
        engine: "vllm".into(),
        further: format!("held: {held}\nprobe: {probe}\n"),
        ..GatewaySpec::default()
    })
}

/// The clients of a load in each region that has some. `at` is its index in the workload; `before`
/// loads already have clients.
fn crowds(
    load: &Load,
    cell: (&Plan, &[Post], &Workload),
    seed: u64,
    at: usize,
    before: usize,
) -> anyhow::Result<Vec<StageLoad>> {
    let (plan, gateways, workload) = cell;
    let Some(generator) = &load.generator else {
        bail!("only loads with a generator run live; name others in live.workloads");
    };
    let crowds = match (&load.clients, load.rates(workload.level)) {
        (Some(clients), _) => closed(load, clients, before),
        (None, Some(rates)) => open(load, &rates, seed, at)?,
        (None, None) => bail!("neither clients nor a rate; name other workloads in live.workloads"),
    };
    let crowd = |(region, arrivals): (usize, Vec<String>)| -> anyhow::Result<StageLoad> {
        let mut args = generator_args(generator)?;
        args.extend(arrivals);
        args.extend(flags([
            ("--seed", seed.to_string()),
            ("--region", region.to_string()),
            ("--drain", DRAIN.to_owned()),
            ("--timeout", "600s".to_owned()),
        ]));
        args.push("--ignore-eos".to_owned());
        Ok(StageLoad { region, gateways: nearest(plan, gateways, region), args })
    };
    crowds.into_iter().map(crowd).collect()
}

/// The regions with clients of a closed loop, and their arguments.
fn closed(load: &Load, clients: &[u32], before: usize) -> Vec<(usize, Vec<String>)> {
    let some = clients.iter().enumerate().filter(|(_, count)| **count > 0);
    let crowd = |(nth, (region, count)): (usize, (usize, &u32))| {
        // Numbered as in the simulator: each load of a region has separate clients.
        let first = ((before + nth) as u32) << 16;
        let mut args = flags([
            ("--clients", count.to_string()),
            ("--first-client", first.to_string()),
            ("--ramp", ms(load.ramp.0)),
        ]);
        args.extend(
            load.programs
                .iter()
                .flat_map(|n| flags([("--programs", (n * u64::from(*count)).to_string())])),
        );
        (region, args)
    };
    some.enumerate().map(crowd).collect()
}

/// The regions with an open loop, and their arguments: the same arrivals as in the simulator.
fn open(
    load: &Load,
    rates: &[f64],
    seed: u64,
    at: usize,
) -> anyhow::Result<Vec<(usize, Vec<String>)>> {
    if load.bursts.is_some() || load.rise.is_some() {
        bail!("bursts and rise are only simulated; leave them out, or name other workloads");
    }
    let some = rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0);
    let crowd = |(region, rate): (usize, &f64)| {
        let arrivals = build::arrival_seed(seed, at, region);
        (region, flags([("--rate", rate.to_string()), ("--arrival-seed", arrivals.to_string())]))
    };
    Ok(some.map(crowd).collect())
}

fn flags<const N: usize>(pairs: [(&str, String); N]) -> Vec<String> {
    pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

fn generator_args(generator: &Policy) -> anyhow::Result<Vec<String>> {
    let mut args = vec!["--generator".to_owned(), generator.name.clone()];
    for (name, value) in &generator.params {
        let Scalar::Number(number) = value else {
            bail!("generator.{name}: {value} is not a number; use one");
        };
        args.extend(["--knob".to_owned(), format!("{name}={number}")]);
    }
    Ok(args)
}

/// The gateways of the nearest region that has some.
fn nearest(plan: &Plan, gateways: &[Post], region: usize) -> Vec<usize> {
    let away = |post: &Post| plan.regions.rtt_ms[region][post.region];
    let place = gateways.iter().min_by(|a, b| away(a).total_cmp(&away(b))).map(|post| post.region);
    (0..gateways.len()).filter(|at| Some(gateways[*at].region) == place).collect()
}

fn ms(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}
