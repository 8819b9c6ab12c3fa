//! Prefill and decode pools: our price for both legs of a request against the rules of others, and
//! pools against the same GPUs without roles.
//!
//! A cell is a workload at a level on a fleet. In each, ours is compared with every other system that
//! answers, by the score of the goal: throughput, mean TTFT, P90 TTFT and mean E2E. The tables begin
//! with the cells in which pools, or our price, lose.

mod break_even;
mod duel;
mod pairs;

use anyhow::bail;

use super::cells::{findings, simulate};
use super::claim::Claim;
use super::plan::Plan;
use super::{Context, Findings};
use duel::Duel;

pub(super) use break_even::run as break_even;

/// Compares the rules for pools.
///
/// # Errors
/// What is wrong with the YAML; no system of ours in front of pools.
pub(super) fn pairs(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let Some(ours) = plan.systems.iter().position(|(system, ..)| duel::is_ours(system)) else {
        bail!("systems: none has the policy `meridian` and pools; add one without `whole`");
    };
    let grid = simulate(context, &plan)?;
    let duels = Duel::all(&grid, ours);
    let mut found = findings(context, &grid)?;
    let tables = [
        pairs::against_none(&grid, &duels),
        pairs::worst(&grid, &duels),
        pairs::dominated(&grid, &duels),
        pairs::by_rival(&grid, &duels),
        pairs::by_fleet(&grid, &duels),
    ];
    found.tables = tables.into_iter().chain(std::mem::take(&mut found.tables)).collect();
    let rules: Vec<&Duel> = duels.iter().filter(|duel| !duel.is_whole(&grid)).collect();
    let free = rules.iter().filter(|duel| !duel.dominates).count();
    let what = "no other rule for pools is better than ours on all four metrics at once";
    found.claims = vec![Claim::target(what, free, rules.len())];
    Ok(found)
}

#[cfg(test)]
mod tests;
