//! HeroServe as printed: Algorithms 1 and 2 with the paper's formulas, for reproduction only.
//!
//! Nothing is corrected here: sizes count elements and rates bits (4), two synchronisations stand
//! for all layers and the ring is counted twice (5), hops store and forward (6), links are alone
//! (7), stages are paired by position (8), rings have no latency and switches one microsecond (9),
//! TPOT is divided by the stages at a batch of one (10), KV is charged to every token (3), the
//! whole request queues as one (2), and the search ends at the first swap that does not help (14).
//! The numbers are those of lab/docs/planner.md. Choices that the paper leaves open are fixed: prefill
//! gets the half of the GPUs with more flops, and coefficients C1 to C6 are the engine model's
//! terms.
//!
//! It gives one prefill and one decode instance, which are then judged like any other plan.

mod network;

use std::rc::Rc;

use meridian_engine::Terms;

use crate::cell::Ranked;
use crate::fleet::Fleet;
use crate::instance::{Instance, Parallel, Phase, Rated};
use crate::problem::Problems;
use crate::queue::Queue;
use crate::search::Plan;
use crate::task::Task;
use crate::topology::GpuId;
use network::{Grouped, grouped, handed_over};

/// The values of the paper's formulas for its plan, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Equation 3.
    pub ttft: f64,
    /// Equation 4.
    pub tpot: f64,
    /// Queue and service of a request at the task's rate (none without one).
    pub request: f64,
    /// Equation 1.
    pub h: f64,
}

/// Share of memory for weights.
const R_FRAC: f64 = 0.8;
/// Candidates at most (max_candi).
const MAX_CANDI: usize = 20;
/// Its matrix of distances grows with the square.
const MOST_GPUS: u32 = 512;

/// Algorithm 1: the paper's plan, with the values of its formulas.
///
/// # Errors
///
/// If the task is invalid, or no candidate meets the objectives.
pub fn paper(task: &Task<'_>) -> Result<(Plan, Printed), Problems> {
    task.check()?;
    let all = task.topology.gpus();
    let remedy = format!("mode paper plans {MOST_GPUS} GPUs at most; use mode corrected");
    let mut found = Problems(Vec::new());
    found.unless(all <= MOST_GPUS, "gpus", all, remedy);
    found.or(())?;
    let (prefill, decode) = halves(task);
    let prefills = candidates(task, Phase::Prefill, &prefill);
    let decodes = candidates(task, Phase::Decode, &decode);
    let mut best: Option<(Printed, &Candidate, &Candidate)> = None;
    for p in &prefills {
        for d in &decodes {
            let printed = printed(task, p, d);
            let meets = printed.ttft <= task.slo.ttft && printed.tpot <= task.slo.tpot;
            if meets && printed.h > best.map_or(0.0, |(best, _, _)| best.h) {
                best = Some((printed, p, d));
            }
        }
    }
    let Some((printed, p, d)) = best else {
        let remedy = "no candidate meets the objectives; relax ttft or tpot, or use mode corrected";
        let tried = format!("{} prefill and {} decode candidates", prefills.len(), decodes.len());
        return Err(Problems::one("mode paper", tried, remedy));
    };
    let rated =
        |candidate: &Candidate| Rated::new(task, candidate.instance.clone()).ok().map(Rc::new);
    let list = |candidate| rated(candidate).into_iter().collect::<Vec<_>>();
    let fleet = Fleet { prefill: list(p), decode: list(d) };
    let cells = fleet.judged(task).map(|verdict| Ranked { fleet, verdict });
    Ok((Plan { cells: cells.into_iter().collect(), ..Plan::default() }, printed))
}

struct Candidate {
    instance: Instance,
    network: f64,
    compute: f64,
}

/// The two clusters, which are inputs in the paper.
fn halves(task: &Task<'_>) -> (Vec<GpuId>, Vec<GpuId>) {
    let mut all: Vec<GpuId> = task.topology.all_gpus().collect();
    all.sort_by(|a, b| {
        let flops = |gpu: &GpuId| task.topology.kind(*gpu).flops;
        flops(b).total_cmp(&flops(a)).then(a.cmp(b))
    });
    let decode = all.split_off(all.len().div_ceil(2));
    (all, decode)
}

/// Lines 2 to 17: splits with the fewest GPUs first, without those with too little memory.
fn candidates(task: &Task<'_>, phase: Phase, cluster: &[GpuId]) -> Vec<Candidate> {
    let weights = task.subject.shape.weight_bytes();
    let mut splits = crate::splits::parallels(task, cluster.len() as u32);
    splits.retain(|split| !split.ep);
    splits.sort_by_key(|split| (split.gpus(), split.pp));
    let mut all = Vec::new();
    for parallel in splits {
        let needed = weights / (f64::from(parallel.gpus()) * R_FRAC);
        let enough = |gpu: &&GpuId| task.topology.kind(**gpu).memory >= needed;
        let with_room: Vec<GpuId> = cluster.iter().filter(enough).copied().collect();
        if with_room.len() < parallel.gpus() as usize || all.len() >= MAX_CANDI {
            continue;
        }
        let tokens = if phase == Phase::Prefill { task.prompt.mean } else { 1.0 };
        let Some(Grouped { stages, seconds }) = grouped(task, parallel, &with_room, tokens) else {
            continue;
        };
        let compute = computed(task, phase, parallel, &stages);
        let instance = Instance { phase, parallel, stages };
        all.push(Candidate { instance, network: seconds, compute });
    }
    all
}

/// Equations 12 and 13, with the slowest of the GPUs.
fn computed(task: &Task<'_>, phase: Phase, parallel: Parallel, stages: &[Vec<GpuId>]) -> f64 {
    let k_in = task.prompt.mean;
    let seconds = |gpu: &GpuId| {
        let Parallel { tp, pp, .. } = parallel;
        let terms = Terms::split(&task.subject.shape, task.topology.kind(*gpu), tp);
        match phase {
            Phase::Prefill => terms.token * k_in + terms.pair * k_in * k_in / 2.0 + terms.step,
            Phase::Decode => (terms.weights + terms.kv * k_in) / f64::from(pp) + terms.step,
        }
    };
    stages.iter().flatten().map(seconds).fold(0.0, f64::max)
}

/// Lines 18 and 19: equations 1 to 4.
fn printed(task: &Task<'_>, p: &Candidate, d: &Candidate) -> Printed {
    let handed = handed_over(task, &p.instance, &d.instance);
    let serve = p.network + d.network + p.compute + d.compute + handed;
    let queue = Queue::alone(serve, 0.0);
    let request = serve + task.rate.map_or(0.0, |rate| queue.wait(rate).mean);
    Printed {
        ttft: p.network + p.compute,
        tpot: d.network + d.compute + handed,
        request,
        h: 1.0 / request,
    }
}
