//! Explains why there is no plan, what is almost possible, and why a plan leaves GPUs idle.

use std::collections::BTreeMap;

use crate::cell::{Found, Smallest, smaller};
use crate::fleet::Limit;
use crate::instance::{Parallel, Phase};
use crate::problem::Problems;
use crate::search::{Plan, searched};
use crate::splits::{MOST_OF_INSTANCE, parallels};
use crate::task::{Slo, Task};
use crate::units::{Size, Span};

/// Factor over an idle instance's time, so that there is capacity for a load.
const ROOM: f64 = 1.1;
/// Multiples of objectives to try.
const MORE: [f64; 8] = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0];

/// All reasons why the task cannot be served, with the nearest task that could be.
pub(crate) fn why_none(task: &Task<'_>, found: &[Found]) -> Problems {
    let mut problems = Problems(Vec::new());
    if !found.iter().any(|one| one.fits) {
        return memory(task);
    }
    let least = |of: fn(&Found) -> Option<f64>| found.iter().filter_map(of).min_by(f64::total_cmp);
    let mut slo = task.slo;
    let objectives = [
        ("ttft", "prefill", least(|one| one.least_ttft), &mut slo.ttft),
        ("tpot", "decode", least(|one| one.least_tpot), &mut slo.tpot),
    ];
    for (field, phase, least, allowed) in objectives {
        let (Some(least), objective) = (least, *allowed) else { continue };
        let remedy = format!(
            "the fastest {phase} here does {} without load; allow {} or more, or use faster GPUs",
            Span(least),
            Span(least * ROOM)
        );
        problems.unless(least < objective, field, Span(objective), remedy);
        *allowed = objective.max(least * ROOM);
    }
    if problems.0.is_empty() {
        return not_both(task, found);
    }
    // Phases that fit separately may not fit together.
    if let (Some(last), Some(slo)) = (problems.0.last_mut(), met(task, slo, &MORE)) {
        last.remedy += &format!("; a plan is found with {}", in_both(&slo));
    }
    problems
}

/// Each phase can be served separately, but not both together.
fn not_both(task: &Task<'_>, found: &[Found]) -> Problems {
    let mut smallest = Smallest::new();
    for (phase, parallel) in found.iter().flat_map(|one| &one.smallest) {
        smaller(&mut smallest, *phase, *parallel);
    }
    let gpus: u32 = smallest.values().map(|one| one.gpus()).sum();
    let mut remedy = format!(
        "each phase fits alone, but not both at once: {}; give {gpus} that reach each other",
        in_words(&smallest)
    );
    if let Some(slo) = met(task, task.slo, &MORE[1..]) {
        remedy += &format!(", or allow {}", in_both(&slo));
    }
    Problems::one("gpus", task.topology.gpus(), remedy)
}

/// The smallest of these multiples of the objectives that can be met.
fn met(task: &Task<'_>, from: Slo, multiples: &[f64]) -> Option<Slo> {
    let times = multiples.iter();
    let mut all = times.map(|by| Slo { ttft: by * from.ttft, tpot: by * from.tpot, ..from });
    all.find(|slo| {
        let task = Task { slo: *slo, rate: None, ..task.clone() };
        searched(&task).0.first().is_some_and(|plan| plan.goodput() > 0.0)
    })
}

fn in_both(slo: &Slo) -> String {
    format!("a ttft of {} and a tpot of {}", Span(slo.ttft), Span(slo.tpot))
}

/// The smallest instances in words.
fn in_words(smallest: &Smallest) -> String {
    let one = |(phase, one): (&Phase, &Parallel)| {
        let split = if one.ep { "ep" } else { "tp" };
        let Parallel { tp, pp, .. } = one;
        format!("the smallest {} takes {} GPUs ({split} {tp}, pp {pp})", phase.name(), one.gpus())
    };
    smallest.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Why a plan leaves GPUs idle; `None` if it does not.
#[must_use]
pub fn idle(task: &Task<'_>, plan: &Plan) -> Option<String> {
    let idle = task.topology.gpus().saturating_sub(plan.gpus());
    if idle == 0 {
        return None;
    }
    if task.rate.is_some() {
        return Some(format!("{idle} GPUs stay idle: the rate needs no more"));
    }
    let mut free: BTreeMap<u32, u32> = BTreeMap::new();
    for gpu in task.topology.all_gpus() {
        *free.entry(task.topology.server_of(gpu)).or_default() += 1;
    }
    for gpu in plan.instances().flat_map(|rated| rated.instance.gpus()) {
        free.entry(task.topology.server_of(gpu)).and_modify(|free| *free -= 1);
    }
    let most = free.values().max().copied().unwrap_or(0);
    let mut limits: Vec<&str> = plan
        .cells
        .iter()
        .map(|cell| match cell.verdict.limit {
            Limit::Prefill => Phase::Prefill.name(),
            Limit::Decode => Phase::Decode.name(),
            Limit::Link(_) => "a link",
        })
        .collect();
    limits.sort_unstable();
    limits.dedup();
    Some(format!(
        "{idle} GPUs stay idle, {most} on one server at most: {} limits, and {}",
        limits.join(" or "),
        in_words(&plan.smallest)
    ))
}

/// The weights do not fit: how many GPUs of the largest kind are needed.
fn memory(task: &Task<'_>) -> Problems {
    let shape = &task.subject.shape;
    let kinds = task.topology.servers().iter().map(|server| server.kind);
    let Some(kind) = kinds.max_by(|a, b| a.memory.total_cmp(&b.memory)) else {
        return Problems::one("servers", "none", "give at least one");
    };
    let room = |one: &Parallel| {
        let gpus = f64::from(one.gpus());
        kind.usable_memory()
            - shape.weight_bytes() / gpus
            - 2048.0 * shape.kv_bytes(one.tp) / f64::from(one.pp)
    };
    let all = parallels(task, MOST_OF_INSTANCE);
    let enough = all.iter().filter(|one| !one.ep && room(one) > 0.0).min_by_key(|one| one.gpus());
    let nearest = match enough {
        Some(one) => format!(
            "prefill and decode each need {} {} (tp {}, pp {}) that reach each other, {} in all; add \
             GPUs",
            one.gpus(),
            kind.name,
            one.tp,
            one.pp,
            2 * one.gpus()
        ),
        None => {
            format!("no split up to {MOST_OF_INSTANCE} {} is enough; use larger GPUs", kind.name)
        }
    };
    let value = format!(
        "{} takes {} and the topology has {} GPUs with {} at most",
        task.subject.name,
        Size(shape.weight_bytes()),
        task.topology.gpus(),
        Size(kind.memory)
    );
    Problems::one("memory", value, nearest)
}
