//! A new plan for a running one whose lengths drift, or which loses an instance.
//!
//! Running instances stay in place as long as that helps. While the rate is not met, the best of the
//! first kind of change that helps is made: an instance, or one of each phase, on free GPUs; an
//! instance with the other phase on its GPUs; an instance whose GPUs are cut again, together with free
//! ones. If these do not reach the rate, and no GPU is lost, the planner starts from nothing.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::advice::{additions, with};
use crate::cell::Ranked;
use crate::fleet::Fleet;
use crate::instance::{Instance, Phase, Rated};
use crate::names::names;
use crate::problem::Problems;
use crate::search::{Plan, plan};
use crate::task::Task;
use crate::topology::GpuId;

/// Changes of a cell at most.
const MOST: usize = 32;
/// Free GPUs that are considered for a cell.
const FREE: usize = 64;
/// A change must raise the goodput by this share.
const HELPS: f64 = 1.001;

/// The fate of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It stays as it is: its names before and after.
    Kept(String, String),
    /// Its GPUs get another instance: its name before, the new one, and that one's name.
    Changed(String, Instance, String),
    /// It ends: its name.
    Stopped(String),
    /// It is lost.
    Lost(String),
    /// It is new: the instance and its name.
    Started(Instance, String),
}

/// A running plan under new conditions.
#[derive(Clone, Debug)]
pub struct Revised {
    /// What all of its instances would serve now, requests a second.
    pub before: f64,
    /// What remains of it serves, without lost instances.
    pub remaining: f64,
    /// The new plan; the running one's remaining instances if they serve the rate.
    pub plan: Plan,
    /// Every instance, old ones first.
    pub changes: Vec<Change>,
}

/// Revises a running plan for the task's lengths and rate, without the instances called `lost`.
///
/// # Errors
///
/// If the task is invalid, the plan has no instance with such a name, or no instance can serve within
/// the objectives any more.
pub fn revise(
    task: &Task<'_>,
    running: &[Fleet],
    lost: &[String],
    rate: f64,
) -> Result<Revised, Problems> {
    let task = &Task { rate: Some(rate), ..task.clone() };
    task.check()?;
    let before: Vec<Instance> = running.iter().flat_map(all).collect();
    let known = names(before.iter());
    for name in lost {
        if !known.contains(name) {
            let remedy = format!("the plan has {}", known.join(", "));
            return Err(Problems::one("without", name, remedy));
        }
    }
    let is_lost = |one: &Instance| {
        before.iter().zip(&known).any(|(other, name)| other == one && lost.contains(name))
    };
    let gone: BTreeSet<GpuId> =
        before.iter().filter(|one| is_lost(one)).flat_map(Instance::gpus).collect();
    let cells = |keep: &dyn Fn(&Instance) -> bool| -> Vec<Fleet> {
        running.iter().map(|fleet| rated(task, fleet, keep)).collect()
    };
    let goodput = |fleets: &[Fleet]| -> f64 { fleets.iter().map(|one| serves(task, one)).sum() };
    let was = goodput(&cells(&|_| true));
    let mut fleets = cells(&|one| !is_lost(one));
    let remaining = goodput(&fleets);
    if remaining < rate {
        grow(task, &mut fleets, rate, &gone);
    }
    let mut new = Plan { cells: judged(task, &fleets), ..Plan::default() };
    if new.goodput() < rate * 0.9999
        && gone.is_empty()
        && let Ok(mut plans) = plan(task)
        && !plans.is_empty()
    {
        new = plans.swap_remove(0);
    }
    if new.cells.is_empty() {
        let remedy = "no instance that is left can serve within the objectives; plan again on the \
                      GPUs that are left, or loosen an objective";
        return Err(Problems::one("rate", format!("{rate:.3}"), remedy));
    }
    let changes = changes(&before, &known, &is_lost, &new);
    Ok(Revised { before: was, remaining, plan: new, changes })
}

fn all(fleet: &Fleet) -> Vec<Instance> {
    fleet.all().map(|one| one.instance.clone()).collect()
}

/// The instances of a cell that stay, with the task's lengths.
fn rated(task: &Task<'_>, fleet: &Fleet, keep: &dyn Fn(&Instance) -> bool) -> Fleet {
    let of = |list: &[Rc<Rated>]| {
        let stay = list.iter().map(|one| &one.instance).filter(|one| keep(one));
        stay.filter_map(|one| Rated::new(task, one.clone()).ok().map(Rc::new)).collect()
    };
    Fleet { prefill: of(&fleet.prefill), decode: of(&fleet.decode) }
}

fn serves(task: &Task<'_>, fleet: &Fleet) -> f64 {
    fleet.judged(task).map_or(0.0, |verdict| verdict.goodput)
}

fn judged(task: &Task<'_>, fleets: &[Fleet]) -> Vec<Ranked> {
    let ranked =
        |fleet: &Fleet| fleet.judged(task).map(|verdict| Ranked { fleet: fleet.clone(), verdict });
    fleets.iter().filter_map(ranked).collect()
}

/// Changes cells, those that lack most first, until they serve the rate or nothing helps.
fn grow(task: &Task<'_>, fleets: &mut [Fleet], rate: f64, gone: &BTreeSet<GpuId>) {
    let mut served: Vec<f64> = fleets.iter().map(|one| serves(task, one)).collect();
    for _ in 0..MOST * fleets.len() {
        if served.iter().sum::<f64>() >= rate {
            return;
        }
        let used: BTreeSet<GpuId> = fleets
            .iter()
            .flat_map(Fleet::all)
            .flat_map(|one| one.instance.gpus().collect::<Vec<_>>())
            .collect();
        let mut order: Vec<usize> = (0..fleets.len()).collect();
        order.sort_by(|a, b| served[*a].total_cmp(&served[*b]));
        let changed = order.into_iter().find_map(|at| {
            let free = free(task, &fleets[at], &used, gone);
            let others: f64 = served.iter().sum::<f64>() - served[at];
            let best = Best::new(task, served[at], rate - others);
            better(best, &fleets[at], &free).map(|fleet| (at, fleet))
        });
        let Some((at, fleet)) = changed else { return };
        served[at] = serves(task, &fleet);
        fleets[at] = fleet;
    }
}

/// Free GPUs, those on a cell's own servers first.
fn free(
    task: &Task<'_>,
    fleet: &Fleet,
    used: &BTreeSet<GpuId>,
    gone: &BTreeSet<GpuId>,
) -> Vec<GpuId> {
    let home = |gpu: GpuId| task.topology.server_of(gpu);
    let own: BTreeSet<u32> =
        fleet.all().flat_map(|one| one.instance.gpus().map(home).collect::<Vec<_>>()).collect();
    let is_free = |gpu: &GpuId| !used.contains(gpu) && !gone.contains(gpu);
    let mut free: Vec<GpuId> = task.topology.all_gpus().filter(is_free).collect();
    free.sort_by_key(|gpu| (!own.contains(&home(*gpu)), *gpu));
    free.truncate(FREE);
    free
}

/// The cell with the best change of the first kind that helps.
fn better(mut best: Best<'_>, fleet: &Fleet, free: &[GpuId]) -> Option<Fleet> {
    best.add(fleet, free);
    if best.found.is_none() {
        for one in fleet.all() {
            best.turn(fleet, one);
        }
    }
    if best.found.is_none() {
        for one in fleet.all() {
            let rest = without(fleet, one);
            let more: Vec<GpuId> = one.instance.gpus().chain(free.iter().copied()).collect();
            best.add(&rest, &more);
        }
    }
    best.found.map(|(_, fleet)| fleet)
}

fn without(fleet: &Fleet, gone: &Rc<Rated>) -> Fleet {
    let mut fleet = fleet.clone();
    fleet.prefill.retain(|one| !Rc::ptr_eq(one, gone));
    fleet.decode.retain(|one| !Rc::ptr_eq(one, gone));
    fleet
}

/// The best change so far: what it gains for each GPU that it touches, up to the rate that is needed.
struct Best<'a> {
    task: &'a Task<'a>,
    /// What the cell serves now, and what it should serve.
    now: f64,
    wanted: f64,
    found: Option<(f64, Fleet)>,
}

impl<'a> Best<'a> {
    fn new(task: &'a Task<'a>, now: f64, wanted: f64) -> Best<'a> {
        Best { task, now, wanted, found: None }
    }

    fn consider(&mut self, fleet: &Fleet, more: &[Rc<Rated>]) {
        let gpus: u32 = more.iter().map(|one| one.instance.parallel.gpus()).sum();
        let fleet = with(fleet, more);
        let goodput = serves(self.task, &fleet);
        let gain = (goodput.min(self.wanted) - self.now) / f64::from(gpus.max(1));
        if goodput > self.now * HELPS && self.found.as_ref().is_none_or(|(best, _)| gain > *best) {
            self.found = Some((gain, fleet));
        }
    }

    /// New instances on free GPUs: one, or one of each phase.
    fn add(&mut self, fleet: &Fleet, free: &[GpuId]) {
        for first in additions(self.task, free) {
            self.consider(fleet, core::slice::from_ref(&first));
            if first.instance.phase == Phase::Decode {
                continue;
            }
            let taken: BTreeSet<GpuId> = first.instance.gpus().collect();
            let rest: Vec<GpuId> =
                free.iter().copied().filter(|gpu| !taken.contains(gpu)).collect();
            for second in additions(self.task, &rest) {
                if second.instance.phase == Phase::Decode {
                    self.consider(fleet, &[first.clone(), second]);
                }
            }
        }
    }

    /// An instance with the other phase.
    fn turn(&mut self, fleet: &Fleet, one: &Rc<Rated>) {
        let phase = match one.instance.phase {
            Phase::Prefill => Phase::Decode,
            Phase::Decode => Phase::Prefill,
        };
        let other = Instance { phase, ..one.instance.clone() };
        if let Ok(other) = Rated::new(self.task, other) {
            self.consider(&without(fleet, one), &[Rc::new(other)]);
        }
    }
}

/// The fate of every instance, and the new ones.
fn changes(
    before: &[Instance],
    known: &[String],
    is_lost: &dyn Fn(&Instance) -> bool,
    new: &Plan,
) -> Vec<Change> {
    let after: Vec<&Instance> = new.instances().map(|one| &one.instance).collect();
    let named = names(after.iter().copied());
    let gpus = |one: &Instance| one.gpus().collect::<BTreeSet<_>>();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    let mut all: Vec<Change> = Vec::new();
    for (one, name) in before.iter().zip(known) {
        let same = after.iter().position(|other| *other == one);
        let here = after.iter().position(|other| gpus(other) == gpus(one));
        let name = name.clone();
        all.push(match (same, here) {
            _ if is_lost(one) => Change::Lost(name),
            (Some(at), _) => {
                taken.insert(at);
                Change::Kept(name, named[at].clone())
            }
            (None, Some(at)) => {
                taken.insert(at);
                Change::Changed(name, after[at].clone(), named[at].clone())
            }
            (None, None) => Change::Stopped(name),
        });
    }
    let more = after.iter().zip(named).enumerate().filter(|(at, _)| !taken.contains(at));
    all.extend(more.map(|(_, (one, name))| Change::Started((*one).clone(), name)));
    all
}

#[cfg(test)]
mod tests;
