//! A plan as engines that run: the settings and step times of each instance, and the ways of KV between
//! them.
//!
//! Names, context and the GPU's defaults are those of the rendered files, so that what starts is what
//! would be deployed. Stages take their times from the engine's terms and the topology's collectives,
//! the same as the planner's own predictions; batching, queues and preemption are the engine's.
//!
//! Ranks that share experts need several engines that step together, and are refused.

use std::collections::BTreeMap;

use meridian_engine::{BLOCK_TOKENS, Config, Profile, Stage, Way};

use crate::fleet::Fleet;
use crate::instance::{Instance, Parts, Phase};
use crate::names::names;
use crate::problem::{Problem, Problems};
use crate::render::context;
use crate::task::Task;
use crate::topology::LinkId;
use crate::transfer::transfer;

/// An instance, ready to run.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its name in the rendered files: `prefill-0` and so on.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// Its GPUs.
    pub gpus: u32,
    /// Settings.
    pub config: Config,
    /// Its stages, one or more.
    pub stages: Vec<Stage>,
}

/// The ways of KV of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvWays {
    /// The usable rate of each link that carries KV, in bytes a second.
    pub rates: Vec<f64>,
    /// The ways by names of the prefill and the decode instance.
    pub ways: BTreeMap<(String, String), KvWay>,
}

/// The way of KV from a prefill to a decode instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvWay {
    /// Seconds, whatever the size.
    pub latency: f64,
    /// Seconds of a byte of KV, which counts once however many ranks keep it, without other traffic.
    pub per_byte: f64,
    /// The load of a byte on links, by their number in [`KvWays::rates`].
    pub loads: Vec<(usize, f64)>,
    /// Seconds of a mean prompt's KV without other traffic.
    pub mean: f64,
}

/// The instances of a plan.
///
/// # Errors
///
/// All instances that can't be run, at once.
pub fn started(task: &Task<'_>, fleets: &[Fleet]) -> Result<Vec<Started>, Problems> {
    let all = || fleets.iter().flat_map(Fleet::all).map(|rated| &rated.instance);
    let mut found = Problems(Vec::new());
    let mut started = Vec::new();
    for (instance, name) in all().zip(names(all())) {
        match one(task, instance, name) {
            Ok(one) => started.push(one),
            Err(problem) => found.0.push(problem),
        }
    }
    found.or(started)
}

fn one(task: &Task<'_>, instance: &Instance, name: String) -> Result<Started, Problem> {
    let parallel = instance.parallel;
    if parallel.ep {
        let remedy = "the engine model can't start ranks that share experts; use tp and pp alone";
        return Err(Problem::new(format!("{name}.ep"), true, remedy));
    }
    let parts = Parts::of(task, instance)
        .map_err(|why| Problem::new(&name, format!("{why:?}"), "check the plan"))?;
    let stages: Vec<Stage> = parts.stages.iter().map(|part| stage(part, &parts)).collect();
    let kinds = || instance.gpus().map(|gpu| task.topology.kind(gpu));
    // The defaults of large GPUs are for instances of large GPUs only.
    let small = kinds().find(|gpu| !matches!(gpu.name, "h100" | "h200"));
    let gpu = small.or(kinds().next());
    let gpu = *gpu.ok_or_else(|| Problem::new(&name, "no GPU", "give it stages"))?;
    let kv_blocks = (parts.kv_tokens / f64::from(BLOCK_TOKENS)) as u32;
    let (model, terms) = (task.subject.shape, stages[0].terms);
    let profile = Profile { model, gpu, tp: parallel.tp, terms, kv_blocks };
    let config = Config::new(profile);
    let max_model_len = context(task).min(config.max_model_len);
    let config = Config { max_num_seqs: parts.seats as u32, max_model_len, ..config };
    Ok(Started { name, phase: instance.phase, gpus: parallel.gpus(), config, stages })
}

/// A stage: all its all-reduces of a step in each way, and the hop to the next.
fn stage(part: &crate::instance::StageParts, parts: &Parts) -> Stage {
    let way = |(fixed, byte): (f64, f64)| Way { fixed, token: byte * parts.token_bytes };
    let reduce = part
        .choices
        .iter()
        .map(|choice| way((part.reductions * choice.latency, part.reductions * choice.per_byte)));
    let pass = part.pass.as_ref().map(|(latency, byte, _)| way((*latency, *byte)));
    Stage { terms: part.terms, reduce: reduce.collect(), pass: pass.unwrap_or_default() }
}

/// The ways of KV between all instances, also of different cells: the gateway that is rendered has one
/// pool of each phase.
///
/// # Errors
///
/// If two instances do not reach each other.
pub fn kv_ways(task: &Task<'_>, fleets: &[Fleet]) -> Result<KvWays, Problems> {
    let all = || fleets.iter().flat_map(Fleet::all).map(|rated| &rated.instance);
    let named: Vec<_> = all().zip(names(all())).collect();
    let of = |phase| named.iter().filter(move |(instance, _)| instance.phase == phase);
    let bytes = task.subject.shape.kv_bytes(1) * task.prompt.mean;
    let (mut links, mut ways) = (Vec::<LinkId>::new(), BTreeMap::new());
    for (from, sender) in of(Phase::Prefill) {
        for (to, receiver) in of(Phase::Decode) {
            let Some(kv) = transfer(task, from, to) else {
                let remedy = "no path carries KV between them; use servers with cards and a core";
                return Err(Problems::one(sender, format!("to {receiver}"), remedy));
            };
            let busy = kv.loads.slowest(task.topology).map_or(0.0, |(_, seconds)| seconds);
            let loads = kv.loads.iter().map(|(link, carried)| {
                let at = links.iter().position(|known| *known == link).unwrap_or_else(|| {
                    links.push(link);
                    links.len() - 1
                });
                (at, carried / bytes)
            });
            let loads = loads.collect();
            let latency = kv.seconds - busy;
            let way = KvWay { latency, per_byte: busy / bytes, loads, mean: kv.seconds };
            ways.insert((sender.clone(), receiver.clone()), way);
        }
    }
    let rates = links.into_iter().map(|link| task.topology.usable(link)).collect();
    Ok(KvWays { rates, ways })
}

#[cfg(test)]
mod tests;
