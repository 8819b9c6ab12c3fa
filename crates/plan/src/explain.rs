//! Why there is no plan, and what nearly is one.

use crate::cell::{Found, MOST_OF_INSTANCE, parallels};
use crate::instance::Parallel;
use crate::problem::Problems;
use crate::task::Task;
use crate::units::{Size, Span};

/// Everything that keeps the task from being served, with the nearest that could be.
pub(crate) fn why_none(task: &Task<'_>, found: &[Found]) -> Problems {
    let mut problems = Problems(Vec::new());
    if !found.iter().any(|one| one.fits) {
        return memory(task);
    }
    let least = |of: fn(&Found) -> Option<f64>| found.iter().filter_map(of).min_by(f64::total_cmp);
    let objectives = [
        ("ttft", "prefill", least(|one| one.least_ttft), task.slo.ttft),
        ("tpot", "decode", least(|one| one.least_tpot), task.slo.tpot),
    ];
    for (field, phase, least, objective) in objectives {
        let Some(least) = least else { continue };
        // A tenth beyond what an idle instance does, so that there is room for a load.
        let remedy = format!(
            "the fastest {phase} here does {} without load; allow {} or more, or use faster GPUs",
            Span(least),
            Span(least * 1.1)
        );
        problems.unless(least < objective, field, Span(objective), remedy);
    }
    let remedy = "each phase fits alone, but not both at once: they do not share GPUs; add some";
    problems.unless(!problems.0.is_empty(), "gpus", task.topology.gpus(), remedy);
    problems
}

/// The weights do not fit: how many GPUs of the largest kind would do.
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
            "prefill and decode each need {} {} (tp {}, pp {}) that reach each other; add GPUs",
            one.gpus(),
            kind.name,
            one.tp,
            one.pp
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
