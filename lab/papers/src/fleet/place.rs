//! Placements of each system's instances.
//!
//! - `planned` is the planner's own, by the network of the task; `paper` the split of Algorithm 1 repeated over the GPUs.
//! - `distserve` searches as DistServe does: tensor parallel inside a server, pipelines across, the
//!   split of each phase and the number of instances that serve most, ignoring the network. The
//!   baselines with in-network aggregation are built on it and use its placement.
//! - `across` puts eight ranks half on one server and half on the next: not the placement of any
//!   system, but the same for all, so that only the collective matters.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use meridian_plan::{GpuId, Instance, Parallel, Phase, Rated, Task, Topology, paper, plan};
use serde::{Deserialize, Serialize};

use super::system::{Mode, System};

/// A placement: instances with their share of the requests.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// The prefill instances.
    pub prefill: Vec<(Instance, f64)>,
    /// The decode instances.
    pub decode: Vec<(Instance, f64)>,
}

/// The kind of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Each system's own placement.
    Own,
    /// Eight ranks over two servers, the same for all.
    Across,
}

impl Layout {
    /// The placement of a system. `shared` caches results common to several systems.
    ///
    /// # Errors
    ///
    /// When nothing serves the task.
    pub fn place(
        self,
        task: &Task<'_>,
        system: System,
        mode: Mode,
        shared: &mut Option<Placed>,
    ) -> anyhow::Result<Placed> {
        match (self, system, mode) {
            (Layout::Own, System::Heroserve, Mode::Network | Mode::Corrected) => {
                return planned(task);
            }
            (Layout::Own, System::Heroserve, Mode::Paper) => return printed(task),
            _ => {}
        }
        if let Some(placed) = shared {
            return Ok(placed.clone());
        }
        let placed = if self == Layout::Across { across(task) } else { distserve(task) }?;
        *shared = Some(placed.clone());
        Ok(placed)
    }
}

impl Placed {
    /// Its goodput, ignoring links between instances.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let sum = |all: &[(Instance, f64)]| all.iter().map(|(_, rate)| rate).sum::<f64>();
        sum(&self.prefill).min(sum(&self.decode))
    }

    /// In words: `2 x tp4 pp2 + 1 x tp8`.
    #[must_use]
    pub fn text(&self) -> String {
        let of = |all: &[(Instance, f64)]| {
            let mut counts: BTreeMap<Parallel, u32> = BTreeMap::new();
            all.iter().for_each(|(one, _)| *counts.entry(one.parallel).or_default() += 1);
            let split = |(one, count): (&Parallel, &u32)| {
                let kind = if one.ep { "ep" } else { "tp" };
                let stages = if one.pp > 1 { format!(" pp{}", one.pp) } else { String::new() };
                format!("{count} x {kind}{}{stages}", one.tp)
            };
            counts.iter().map(split).collect::<Vec<_>>().join(", ")
        };
        format!("{} + {}", of(&self.prefill), of(&self.decode))
    }
}

/// The planner's own.
///
/// # Errors
/// When there is no plan.
pub(super) fn planned(task: &Task<'_>) -> anyhow::Result<Placed> {
    let plans = plan(task)?;
    let best = plans.first().context("a search that succeeds has a plan")?;
    let mut placed = Placed::default();
    for rated in best.instances() {
        let list = match rated.instance.phase {
            Phase::Prefill => &mut placed.prefill,
            Phase::Decode => &mut placed.decode,
        };
        list.push((rated.instance.clone(), rated.rate));
    }
    Ok(placed)
}

/// Algorithm 1's splits, repeated as often as they fit.
fn printed(task: &Task<'_>) -> anyhow::Result<Placed> {
    let (best, _) = paper(task)?;
    let of = |phase| {
        let mut all = best.instances().map(|rated| &rated.instance);
        all.find(|instance| instance.phase == phase).map(|instance| instance.parallel)
    };
    let splits = of(Phase::Prefill).zip(of(Phase::Decode));
    let (prefill, decode) = splits.context("mode paper: its plan is rated nothing here")?;
    let order = task.topology.all_gpus().collect();
    Filling::new(task, order).best(&[prefill], &[decode])
}

/// DistServe's.
///
/// # Errors
/// When nothing serves the task.
pub(super) fn distserve(task: &Task<'_>) -> anyhow::Result<Placed> {
    let least = task.topology.servers().iter().map(|server| server.gpus).min().unwrap_or(1);
    let splits = splits(task, |tp| tp <= least);
    Filling::new(task, task.topology.all_gpus().collect()).best(&splits, &splits)
}

/// Half of eight ranks on each of two servers.
///
/// # Errors
///
/// When this placement cannot serve the task.
pub(super) fn across(task: &Task<'_>) -> anyhow::Result<Placed> {
    const TP: u32 = 8;
    let splits = splits(task, |tp| tp == TP);
    Filling::new(task, interleaved(task.topology, TP / 2)).best(&splits, &splits)
}

fn splits(task: &Task<'_>, fits: impl Fn(u32) -> bool) -> Vec<Parallel> {
    let model = &task.subject.shape;
    let tp = [1, 2, 4, 8].into_iter().filter(|tp| model.heads.is_multiple_of(*tp) && fits(*tp));
    tp.flat_map(|tp| [1, 2, 3, 4].map(|pp| Parallel { tp, pp, ep: false })).collect()
}

/// GPUs in turns of `part` from each of two servers.
fn interleaved(topology: &Topology, part: u32) -> Vec<GpuId> {
    let mut order = Vec::new();
    for pair in topology.servers().chunks_exact(2) {
        let least = pair[0].gpus.min(pair[1].gpus);
        for first in (0..least).step_by(part as usize) {
            for server in pair {
                order.extend((server.first + first..server.first + first + part).map(GpuId));
            }
        }
    }
    order
}

/// The key of an instance's rate if servers of a kind are equal: phase, split, and kinds.
type Key = (Phase, Parallel, Vec<&'static str>);

/// Fills GPUs with instances in a given order.
struct Filling<'a> {
    task: &'a Task<'a>,
    order: Vec<GpuId>,
    rates: BTreeMap<Key, f64>,
}

impl<'a> Filling<'a> {
    fn new(task: &'a Task<'a>, order: Vec<GpuId>) -> Filling<'a> {
        Filling { task, order, rates: BTreeMap::new() }
    }

    /// The best splits, numbers and order of phases.
    fn best(&mut self, prefill: &[Parallel], decode: &[Parallel]) -> anyhow::Result<Placed> {
        let mut best = Placed::default();
        for p in prefill {
            for d in decode {
                if self.bound(*p, *d) <= best.rate() {
                    continue;
                }
                for first in [(Phase::Prefill, *p, *d), (Phase::Decode, *d, *p)] {
                    for count in 1..=self.order.len() as u32 / first.1.gpus() {
                        let placed = self.filled(first, count);
                        if placed.rate() > best.rate() {
                            best = placed;
                        }
                    }
                }
            }
        }
        if best.rate() <= 0.0 {
            bail!("no split within the rules meets the objectives; relax ttft or tpot");
        }
        Ok(best)
    }

    /// An upper bound on the goodput: all GPUs of the best kind for each phase.
    fn bound(&mut self, prefill: Parallel, decode: Parallel) -> f64 {
        let (p, d) = (self.fastest(Phase::Prefill, prefill), self.fastest(Phase::Decode, decode));
        let gpus = |split: Parallel, rate: f64| f64::from(split.gpus()) / rate;
        self.order.len() as f64 / (gpus(prefill, p) + gpus(decode, d))
    }

    /// The best rate of an instance that starts at a server boundary.
    fn fastest(&mut self, phase: Phase, split: Parallel) -> f64 {
        let mut most = 0.0_f64;
        let mut at = 0;
        while let Some(gpu) = self.order.get(at) {
            let server = self.task.topology.home(*gpu).gpus as usize;
            let mut start = at;
            let next = self.next(phase, split, &mut start);
            most = most.max(next.map_or(0.0, |(_, rate)| rate));
            at += server;
        }
        most
    }

    /// `count` instances of one phase, and then as many of the other as fit.
    fn filled(&mut self, (phase, one, other): (Phase, Parallel, Parallel), count: u32) -> Placed {
        let mut at = 0;
        let mut firsts = Vec::new();
        for _ in 0..count {
            firsts.extend(self.next(phase, one, &mut at));
        }
        let (mut seconds, second) = (Vec::new(), turned(phase));
        while let Some(next) = self.next(second, other, &mut at) {
            seconds.push(next);
        }
        match phase {
            Phase::Prefill => Placed { prefill: firsts, decode: seconds },
            Phase::Decode => Placed { prefill: seconds, decode: firsts },
        }
    }

    /// The next instance; one that fits into a server does not cross its boundary.
    fn next(&mut self, phase: Phase, split: Parallel, at: &mut usize) -> Option<(Instance, f64)> {
        let size = split.gpus() as usize;
        let whole = self.task.topology.home(*self.order.get(*at)?).gpus as usize;
        let into = *at % whole;
        if into > 0 && into + size > whole && self.order.len() > whole {
            *at += whole - into;
        }
        let gpus = self.order.get(*at..*at + size)?.to_vec();
        *at += size;
        let stages: Vec<Vec<GpuId>> = gpus.chunks(split.tp as usize).map(<[_]>::to_vec).collect();
        let kinds = gpus.iter().map(|gpu| self.task.topology.kind(*gpu).name).collect();
        let instance = Instance { phase, parallel: split, stages };
        let task = self.task;
        let rate = self
            .rates
            .entry((phase, split, kinds))
            .or_insert_with(|| Rated::new(task, instance.clone()).map_or(0.0, |rated| rated.rate));
        (*rate > 0.0).then_some((instance, *rate))
    }
}

fn turned(phase: Phase) -> Phase {
    match phase {
        Phase::Prefill => Phase::Decode,
        Phase::Decode => Phase::Prefill,
    }
}
