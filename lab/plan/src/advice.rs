//! Advice: the gain from one more server or a faster link, and the cheapest step to scale out or
//! in.
//!
//! The first replans a topology file with one change. The second keeps a running plan's instances
//! in place and adds or removes as little as possible.

use std::rc::Rc;

use crate::cell::Ranked;
use crate::fleet::Fleet;
use crate::group::arranged;
use crate::import::TopologySpec;
use crate::instance::{Phase, Rated};
use crate::search::plan;
use crate::splits::parallels;
use crate::task::Task;
use crate::topology::GpuId;
use crate::units::Rate;

/// A change with its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The change, in words.
    pub what: String,
    /// GPUs that it adds.
    pub gpus: u32,
    /// Goodput after the change, requests a second.
    pub goodput: f64,
}

/// The gain from each single change of the topology's file, largest first.
#[must_use]
pub fn advice(spec: &TopologySpec, task: &Task<'_>) -> Vec<Advice> {
    let mut all: Vec<Advice> = changes(spec)
        .into_iter()
        .filter_map(|(what, gpus, changed)| {
            let topology = changed.build().ok()?;
            let task = Task { topology: &topology, rate: None, ..task.clone() };
            let goodput = plan(&task).ok()?.first()?.goodput();
            Some(Advice { what, gpus, goodput })
        })
        .collect();
    all.sort_by(|a, b| b.goodput.total_cmp(&a.goodput));
    all
}

fn changes(spec: &TopologySpec) -> Vec<(String, u32, TopologySpec)> {
    let mut all = Vec::new();
    let twice = |rate: Option<Rate>| rate.map(|rate| Rate(2.0 * rate.0));
    for (i, unit) in spec.units.iter().enumerate() {
        for (j, server) in unit.servers.iter().enumerate() {
            let name = server.name.as_ref().unwrap_or(&server.gpu);
            let place = if unit.count > 1 { "in each unit" } else { "more" };
            let mut more = spec.clone();
            more.units[i].servers[j].count += 1;
            all.push((format!("one server {name} {place}"), server.gpus * unit.count, more));
            let mut cards = spec.clone();
            let faster = &mut cards.units[i].servers[j];
            faster.card_rate = twice(faster.card_rate);
            if let Some(rate) = faster.card_rate.filter(|_| faster.cards > 0) {
                all.push((format!("cards of {name} at {rate}"), 0, cards));
            }
            let mut nvlink = spec.clone();
            let faster = &mut nvlink.units[i].servers[j];
            faster.nvlink = twice(faster.nvlink);
            if let Some(rate) = faster.nvlink {
                all.push((format!("NVLink of {name} at {rate}"), 0, nvlink));
            }
        }
    }
    if let Some(core) = spec.core.filter(|core| core.oversubscription > 1.0) {
        let mut wide = spec.clone();
        let less = (core.oversubscription / 2.0).max(1.0);
        wide.core = wide.core.map(|core| crate::CoreSpec { oversubscription: less, ..core });
        all.push((format!("oversubscription of {less}"), 0, wide));
    }
    all
}

/// A running cell with one change.
#[derive(Clone, Debug)]
pub struct Step {
    /// Instances added or removed.
    pub changed: Vec<Rc<Rated>>,
    /// The cell afterwards.
    pub after: Ranked,
}

/// The cheapest step to scale out: of the instances that free GPUs could hold, the single one, or
/// the prefill and decode pair, that adds most per GPU. `None` if nothing helps.
#[must_use]
pub fn step_out(task: &Task<'_>, running: &Ranked) -> Option<Step> {
    let used: Vec<GpuId> =
        running.fleet.all().flat_map(|rated| rated.instance.gpus().collect::<Vec<_>>()).collect();
    let free: Vec<GpuId> = task.topology.all_gpus().filter(|gpu| !used.contains(gpu)).collect();
    let mut best: Option<(f64, Step)> = None;
    let mut consider = |changed: Vec<Rc<Rated>>| {
        let gpus: u32 = changed.iter().map(|rated| rated.instance.parallel.gpus()).sum();
        let fleet = with(&running.fleet, &changed);
        let Some(verdict) = fleet.judged(task) else { return };
        let gain = (verdict.goodput - running.verdict.goodput) / f64::from(gpus);
        if gain > best.as_ref().map_or(1e-9, |(best, _)| *best) {
            best = Some((gain, Step { changed, after: Ranked { fleet, verdict } }));
        }
    };
    for first in additions(task, &free) {
        let rest: Vec<GpuId> = free
            .iter()
            .copied()
            .filter(|gpu| !first.instance.gpus().any(|one| one == *gpu))
            .collect();
        if first.instance.phase == Phase::Prefill {
            for second in additions(task, &rest) {
                if second.instance.phase == Phase::Decode {
                    consider(vec![first.clone(), second]);
                }
            }
        }
        consider(vec![first]);
    }
    best.map(|(_, step)| step)
}

/// One instance of each split, on free GPUs of as few servers as possible.
pub(crate) fn additions(task: &Task<'_>, free: &[GpuId]) -> Vec<Rc<Rated>> {
    let server = |gpu: &GpuId| task.topology.server_of(*gpu);
    let mut order = free.to_vec();
    let here = |gpu: &GpuId| free.iter().filter(|other| server(other) == server(gpu)).count();
    order.sort_by_key(|gpu| (usize::MAX - here(gpu), server(gpu), gpu.0));
    let mut all = Vec::new();
    for parallel in parallels(task, free.len() as u32) {
        for phase in [Phase::Prefill, Phase::Decode] {
            let gpus = &order[..parallel.gpus() as usize];
            let rated = arranged(task, phase, parallel, gpus).filter(|rated| rated.rate > 0.0);
            all.extend(rated.map(Rc::new));
        }
    }
    all
}

pub(crate) fn with(fleet: &Fleet, more: &[Rc<Rated>]) -> Fleet {
    let mut fleet = fleet.clone();
    for rated in more {
        match rated.instance.phase {
            Phase::Prefill => fleet.prefill.push(rated.clone()),
            Phase::Decode => fleet.decode.push(rated.clone()),
        }
    }
    fleet
}

/// The cheapest step to scale in: the instance whose removal costs least per GPU freed. `None` if
/// the cell would serve nothing without any one of them.
#[must_use]
pub fn step_in(task: &Task<'_>, running: &Ranked) -> Option<Step> {
    let mut best: Option<(f64, Step)> = None;
    for gone in running.fleet.all() {
        let mut fleet = running.fleet.clone();
        fleet.prefill.retain(|rated| !Rc::ptr_eq(rated, gone));
        fleet.decode.retain(|rated| !Rc::ptr_eq(rated, gone));
        let Some(verdict) = fleet.judged(task) else { continue };
        let gpus = f64::from(gone.instance.parallel.gpus());
        let loss = (running.verdict.goodput - verdict.goodput) / gpus;
        if best.as_ref().is_none_or(|(best, _)| loss < *best) {
            let changed = vec![gone.clone()];
            best = Some((loss, Step { changed, after: Ranked { fleet, verdict } }));
        }
    }
    best.map(|(_, step)| step)
}
