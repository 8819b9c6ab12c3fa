//! An upper bound on the KV that links carry to decode instances, for any free source GPUs: a
//! linear program.
//!
//! Each part of a request's KV (layers and heads that are on the same GPUs everywhere) comes from
//! one GPU, and goes from there to all decode instances in proportion to their rates. The bound
//! allows each part of each request to come from a different free GPU, ignores hops and all-reduces
//! of prefill instances, and lets each GPU compute as much as the best instance does per GPU.

use std::rc::Rc;

use meridian_plan::{FULL, GpuId, LinkId, Loads, Rated, Task, route};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};

use super::Choice;

/// Some layers and heads.
struct Part {
    /// Of a request's KV.
    share: f64,
    /// The receivers, with each one's share of the requests.
    targets: Vec<(GpuId, f64)>,
}

/// The maximum share of requests that one GPU of any prefill instance computes each second; `None`
/// if KV is not split by layers and heads only.
pub(super) fn most_of_gpu(task: &Task<'_>, prefill: &[&Choice]) -> Option<f64> {
    let model = &task.subject.shape;
    let heads = model.kv_heads.max(1);
    let by_heads = |one: &&Choice| !one.parallel.ep && one.parallel.tp <= heads;
    if model.latent || !prefill.iter().all(by_heads) {
        return None;
    }
    let share = |one: &&Choice| {
        let most = f64::from(heads.div_ceil(one.parallel.tp)) / f64::from(heads);
        one.rate * most / f64::from(one.parallel.pp)
    };
    Some(prefill.iter().map(share).fold(0.0, f64::max))
}

/// The maximum requests a second that are carried if each GPU computes no more than `each`.
pub(super) fn carried(task: &Task<'_>, decode: &[Rc<Rated>], each: f64) -> f64 {
    if decode.iter().any(|one| one.instance.parallel.ep) {
        return f64::INFINITY;
    }
    let taken: Vec<GpuId> = decode.iter().flat_map(|one| one.instance.gpus()).collect();
    let free: Vec<GpuId> = task.topology.all_gpus().filter(|gpu| !taken.contains(gpu)).collect();
    let parts = parts(task, decode);
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let served = problem.add_var(1.0, (0.0, f64::INFINITY));
    let mut links = Links::new(task);
    links.put(served, &own(decode), 1.0);
    let mut sources: Vec<Vec<Variable>> = vec![Vec::new(); free.len()];
    for part in &parts {
        let mut all = vec![(served, -part.share)];
        for (gpu, own) in free.iter().zip(&mut sources) {
            let Some(loads) = sent(task, *gpu, part) else { return f64::INFINITY };
            let flow = problem.add_var(0.0, (0.0, f64::INFINITY));
            links.put(flow, &loads, 1.0);
            own.push(flow);
            all.push((flow, 1.0));
        }
        problem.add_constraint(all, ComparisonOp::Eq, 0.0);
    }
    for own in sources {
        let all: Vec<_> = own.into_iter().map(|flow| (flow, 1.0)).collect();
        problem.add_constraint(all, ComparisonOp::Le, each);
    }
    for row in links.rows {
        problem.add_constraint(row, ComparisonOp::Le, 1.0);
    }
    match problem.solve() {
        Ok(SolveOutcome::Solution(found)) => found.objective(),
        _ => f64::INFINITY,
    }
}

/// For each link, the shares of its capacity that are used.
struct Links<'a> {
    task: &'a Task<'a>,
    rows: Vec<Vec<(Variable, f64)>>,
}

impl<'a> Links<'a> {
    fn new(task: &'a Task<'a>) -> Links<'a> {
        Links { task, rows: vec![Vec::new(); task.topology.link_count() as usize] }
    }

    fn put(&mut self, what: Variable, loads: &Loads, times: f64) {
        for (LinkId(link), bytes) in loads.iter() {
            let room = FULL * self.task.topology.usable(LinkId(link));
            self.rows[link as usize].push((what, times * bytes / room));
        }
    }
}

/// The load of decode instances themselves on links, bytes of a request.
fn own(decode: &[Rc<Rated>]) -> Loads {
    let rate: f64 = decode.iter().map(|one| one.rate).sum();
    let mut loads = Loads::default();
    decode.iter().for_each(|one| loads.merge(&one.loads, one.rate / rate));
    loads
}

/// The load on links of a part on one GPU, for all of a request's KV; `None` if its path depends on
/// its size.
fn sent(task: &Task<'_>, from: GpuId, part: &Part) -> Option<Loads> {
    let whole = task.subject.shape.kv_bytes(1) * task.prompt.mean;
    let mut loads = Loads::default();
    for (to, share) in &part.targets {
        let way = route(task.topology, from, *to, whole)?;
        if route(task.topology, from, *to, 1.0)? != way {
            return None;
        }
        loads.add(&way.links, whole * share);
    }
    Some(loads)
}

/// The parts of a request's KV.
fn parts(task: &Task<'_>, decode: &[Rc<Rated>]) -> Vec<Part> {
    let heads = task.subject.shape.kv_heads.max(1) as usize;
    let rate: f64 = decode.iter().map(|one| one.rate).sum();
    let mut all: Vec<Part> = Vec::new();
    for (from, to) in layers(decode) {
        for head in 0..heads {
            let targets = decode.iter().flat_map(|one| {
                let stages = &one.instance.stages;
                let at = ((from + to) / 2.0 * stages.len() as f64) as usize;
                having(head, heads, &stages[at]).map(|gpu| (gpu, one.rate / rate))
            });
            let targets: Vec<(GpuId, f64)> = targets.collect();
            let share = (to - from) / heads as f64;
            match all.iter_mut().find(|part| part.targets == targets) {
                Some(part) => part.share += share,
                None => all.push(Part { share, targets }),
            }
        }
    }
    all
}

/// Ranges of the layers, as shares of all, that no stage ends in.
fn layers(decode: &[Rc<Rated>]) -> Vec<(f64, f64)> {
    let counts = decode.iter().map(|one| one.instance.stages.len());
    let mut edges: Vec<f64> =
        counts.flat_map(|of| (0..=of).map(move |at| at as f64 / of as f64)).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// The ranks that have a head.
fn having(head: usize, heads: usize, ranks: &[GpuId]) -> impl Iterator<Item = GpuId> + '_ {
    let count = ranks.len();
    let has = move |rank: usize| {
        let first = rank * heads / count;
        (first..((rank + 1) * heads / count).max(first + 1)).contains(&head)
    };
    (0..count).filter(move |rank| has(*rank)).map(|rank| ranks[rank])
}
