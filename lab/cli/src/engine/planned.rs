//! Flags of `meridian engine` for an instance of a plan: its stages, its KV, and the ways to the others.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use meridian_engined::{LoadFailure, Options, Role, Route, Routes, Transfer};
use meridian_plan::{KvWay, KvWays, Phase, kv_ways, one_of, started};

use crate::plan::{Check, Running, all};

/// The instance.
#[derive(Debug, clap::Args)]
pub(super) struct Planned {
    /// Run an instance of this plan, in place of a model on a GPU: a file of `meridian plan --out`.
    /// `--model` is then needed only for the config.json of a model without a short name.
    #[arg(long, value_name = "FILE", requires_all = ["topology", "instance"])]
    plan: Option<PathBuf>,
    /// The plan's topology: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE", requires = "plan")]
    topology: Option<PathBuf>,
    /// The instance: prefill-0, decode-0 and so on, as in the rendered files
    #[arg(long, value_name = "NAME", requires = "plan")]
    instance: Option<String>,
}

impl Planned {
    /// The instance's settings; none without a plan.
    pub(super) fn options(&self, model: Option<&str>) -> anyhow::Result<Option<Options>> {
        let Some(plan) = self.plan.clone() else { return Ok(None) };
        let topology = self.topology.clone().context("--topology: is missing; give a file")?;
        let name = self.instance.as_deref().context("--instance: is missing; name one")?;
        let running = Running::read(&Check { plan, topology, model: model.map(str::to_owned) })?;
        let task = running.task();
        let instances = all(started(&task, &running.fleets), "--plan")?;
        let ways = all(kv_ways(&task, &running.fleets), "--topology")?;
        let known: Vec<&str> = instances.iter().map(|one| one.name.as_str()).collect();
        let one = instances.iter().find(|one| one.name == name);
        let one = one.ok_or_else(|| anyhow!("--instance: {name}; use {}", one_of(name, &known)))?;
        let mut options = Options::new(one.config);
        options.name.clone_from(&one.name);
        options.served_model.clone_from(&running.subject.name);
        options.stages.clone_from(&one.stages);
        let (role, load_failure) = match one.phase {
            Phase::Prefill => (Role::Prefill, LoadFailure::Fail),
            // As in the rendered commands.
            Phase::Decode => (Role::Decode, LoadFailure::Recompute),
        };
        let routes = routes(&ways, name);
        options.transfer = Some(Transfer { role, load_failure, routes, ..Transfer::default() });
        Ok(Some(options))
    }
}

/// The ways that begin or end at an instance.
fn routes(ways: &KvWays, name: &str) -> Routes {
    let route = |way: &KvWay| Route {
        latency: way.latency,
        per_byte: way.per_byte,
        loads: way.loads.clone(),
    };
    let mut routes = Routes { rates: ways.rates.clone(), ..Routes::default() };
    for ((from, to), way) in &ways.ways {
        if from == name {
            routes.to.insert(to.clone(), route(way));
        }
        if to == name {
            routes.from.insert(from.clone(), route(way));
        }
    }
    routes
}
