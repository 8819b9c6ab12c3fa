//! Runs an experiment on real processes, at the scale given in its file, and in the simulator for
//! comparison.
//!
//! The live side has gateways, model engines, the relay that emulates the WAN, and load generators,
//! each a process on this machine (see [`stage`]). The simulated side runs the same plan: the same
//! number of replicas and clients, the same programs and seeds, the same distances. Random network
//! effects (jitter, the millisecond within a region) are left out on both sides.
//!
//! A fleet may have real llama.cpp servers in place of model engines (see [`servers`]); the
//! simulated replicas then have the step times that were measured on them.
//!
//! All processes share the machine. The report includes how much of it was idle; if that was
//! little, live figures show processes waiting for the CPU.

mod compare;
mod play;
mod servers;
mod stage;

use anyhow::Context as _;
use meridian_protocol::units::Span;

use super::grid::Grid;
use super::plan::Plan;
use super::spec::{Measure, Spec};
use super::values::Values;
use super::{Context, Findings, params, results, runner};

/// The measured part in the small variant of a live run.
const QUICK: Measure = Measure { warmup: Span::secs(2), window: Span::secs(8) };

/// Runs an experiment both ways. A file with parts that run on real processes only has published
/// figures for them, which the live results are compared with.
///
/// # Errors
///
/// If its file is invalid, or a process misbehaves.
pub fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut plan = plan(&context.spec, context.quick)?;
    let (installed, speeds) = servers::prepare(&mut plan, context.servers.as_ref())?;
    let cells = plan.cells();
    let first = context.spec.first_seed;
    let seeds: Vec<u64> = (first..first + u64::from(context.seeds)).collect();
    // First, while nothing else needs the processor.
    let (observed, machine) = play::all(
        (&plan, installed.as_ref()),
        &cells,
        &seeds,
        (runner::shape(&context.spec), context.progress),
    )?;
    let live = Grid { plan: &plan, cells: cells.clone(), seeds: seeds.clone(), observed };
    let observed = runner::run(context, &plan, &cells, &seeds, false)?;
    let simulated = Grid { plan: &plan, cells, seeds, observed };
    let mut found = match context.spec.live_only.is_empty() {
        true => Findings::default(),
        false => Findings::of(&context.spec, Values::of(&live))?,
    };
    found.params = params::hash(&plan)?;
    found.tables.extend(compare::tables(&live, &simulated));
    found.tables.extend(speeds);
    found.tables.push(machine);
    for (grid, is_live) in [(&live, true), (&simulated, false)] {
        found.violations.extend(grid.violations());
        found.rows.extend(results::rows(grid).into_iter().map(|mut row| {
            row["live"] = is_live.into();
            row
        }));
    }
    Ok(found)
}

/// The plan at the scale of a live run.
fn plan(spec: &Spec, quick: bool) -> anyhow::Result<Plan> {
    let scale = spec.live.as_ref().context("live: missing; name the scale of a live run")?;
    let mut plan = Plan::new(spec, false)?.smaller(scale);
    if quick {
        // What starts at once has no warm-up in which it could end.
        let warmup = QUICK.warmup.min(plan.measure.warmup);
        plan.measure = Measure { warmup, ..QUICK };
        plan.workloads.truncate(1);
        plan.fleets.truncate(1);
        // The first and the last system: usually a simple one, and ours.
        plan.systems.drain(1..plan.systems.len().saturating_sub(1).max(1));
    }
    let regions = &mut plan.regions;
    (regions.jitter, regions.loss) = (0.0, 0.0);
    regions.rtt_ms.iter_mut().enumerate().for_each(|(at, row)| row[at] = 0.0);
    Ok(plan)
}

/// Notes for the reader of the figures.
pub(super) fn how(spec: &Spec, quick: bool) -> String {
    let measure = match (quick, &spec.live) {
        (false, Some(live)) => live.measure,
        _ => QUICK,
    };
    let s = |span: Span| span.0.as_secs_f64();
    let small = if quick { "**Small variant: its figures say nothing.** " } else { "" };
    format!(
        "{small}Reduced scale, twice: *live* are gateways, model engines, the emulated WAN and \
         clients as processes of one machine, *simulated* is the same in the simulator. {} s of a \
         run count, after {} s of warm-up.",
        s(measure.window),
        s(measure.warmup),
    )
}

#[cfg(test)]
mod tests;
