//! Some systems of an experiment under its first seeds: a taste of its table in a few seconds.

use anyhow::ensure;

use super::plan::Plan;
use super::runner::simulate;
use super::shard::Runs;
use super::values::Values;
use super::{Context, Entry, cells, spec};

/// The values of these systems, in the order of the experiment's file. Runs are as long as the
/// experiment's own, so a value is one of those that its mean is made of.
///
/// # Errors
/// A system that the experiment does not have, and those of its runs.
pub fn short(entry: &Entry, systems: &[&str], seeds: u32) -> anyhow::Result<Values> {
    let context = Context {
        spec: spec::read(entry.name, entry.yaml)?,
        seeds,
        quick: false,
        commit: None,
        servers: None,
        runs: &Runs::whole(),
        simulate: &simulate,
        progress: &|_, _, _| {},
    };
    let mut plan: Plan = cells::plan(&context)?;
    for name in systems {
        let known = plan.systems.iter().any(|(system, ..)| system.name == *name);
        ensure!(known, "systems: `{name}` is not in {}; use one of its systems", entry.name);
    }
    plan.systems.retain(|(system, ..)| systems.contains(&system.name.as_str()));
    Ok(Values::of(&cells::simulate(&context, &plan)?))
}
