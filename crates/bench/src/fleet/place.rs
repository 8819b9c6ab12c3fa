//! Placements: where each system puts its instances.
//!
//! - `planned` is the planner's own, `paper` the split of Algorithm 1 repeated over the GPUs.
//! - `distserve` searches as DistServe does: tensor parallel inside a server, pipelines across, the
//!   split of each phase and the number of instances that serve most, blind to the network. The
//!   baselines with in-network aggregation are built on it and stand where it does.
//! - `across` puts eight ranks half on one server and half on the next: nobody's own placement, but the
//!   same for all systems and the one in which only the collective counts.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use meridian_plan::{GpuId, Instance, Parallel, Phase, Rated, Task, Topology, paper, plan};
use serde::{Deserialize, Serialize};

use super::system::{Mode, System};

/// A placement: instances with their share of the requests.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Those that compute prompts.
    pub prefill: Vec<(Instance, f64)>,
    /// Those that write replies.
    pub decode: Vec<(Instance, f64)>,
}

/// How GPUs are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Each system's own placement.
    Own,
    /// Eight ranks over two servers, the same for all.
    Across,
}

impl Layout {
    /// The placement of a system.
    ///
    /// # Errors
    /// When nothing serves the task.
    pub fn place(self, task: &Task<'_>, system: System, mode: Mode) -> anyhow::Result<Placed> {
        match (self, system, mode) {
            (Layout::Across, ..) => across(task),
            (Layout::Own, System::Heroserve, Mode::Corrected) => planned(task),
            (Layout::Own, System::Heroserve, Mode::Paper) => printed(task),
            (Layout::Own, ..) => distserve(task),
        }
    }
}

impl Placed {
    /// What it can serve, links between instances aside.
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

/// Algorithm 1's splits, as often as they fit.
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
/// When nothing serves the task so.
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

/// What decides an instance's rate where servers of a kind are alike: phase, split, and kinds.
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

    /// The splits, numbers and order of phases that serve most.
    fn best(&mut self, prefill: &[Parallel], decode: &[Parallel]) -> anyhow::Result<Placed> {
        let mut best = Placed::default();
        for p in prefill {
            for d in decode {
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

    /// The next instance; one that fits into a server is not cut by its end.
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
