//! The gain of flow scheduling as a function of a number that operators can measure: the mean use of
//! the busiest card.
//!
//! The card's rate is the only change between the cells of one workload and granularity, so the same
//! requests meet more or less contention. Contention is fair sharing over fair sharing with separate
//! networks for KV and collectives. The use is measured under fair sharing, the state of a cluster
//! without a scheduler. It is a mean over the run, so bursts of requests do not show in it.

mod control;
mod data;
mod figure;
mod grid;
mod standing;
mod table;

use anyhow::Context as _;
use meridian_tools::cluster::Score;
use meridian_tools::stats::Mean;

use super::sweep::{At, Sweep};
use crate::experiment::spec::FlowLoad;
use crate::experiment::{Context, Findings, params};
use grid::{Part, Spot};

/// The system that the others are compared with.
const OURS: &str = "mfs";
/// The system that shows the use of the cards.
const FAIR: &str = "fair";
/// Fair sharing without contention between KV and collectives.
const APART: &str = "apart";

/// The runs of the whole grid.
struct Load<'a> {
    spec: &'a FlowLoad,
    spots: &'a [Spot],
    sweep: Sweep<'a>,
    ours: usize,
    fair: usize,
    apart: usize,
}

/// Runs the file's grid, then its ways to enforce and coordinate.
///
/// # Errors
/// If the file is invalid.
pub(in crate::experiment) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let given = context.spec.flow_load.as_ref().context("flow_load: missing; name the systems")?;
    let spec = if context.quick { small(given) } else { given.clone() };
    let whole = Part::whole(&spec);
    let control = Part::control(&spec)?;
    let [ours, fair, apart] = places(&spec)?;
    // Neither depends on the other's results, so a shard runs a part of both.
    let sweep = Sweep::run(&whole.sweep, context).context("flow_load");
    let other = Sweep::run(&control.sweep, context).context("flow_load.control");
    let (sweep, other) = (sweep?, other?);
    let load = Load { spec: &spec, spots: &whole.spots, sweep, ours, fair, apart };
    let mut rows = load.sweep.rows();
    rows.extend(other.rows());
    let params = params::of_text(&serde_json::to_string(&spec)?);
    Ok(Findings {
        rows,
        tables: vec![load.table(), load.standings(), control::table(&control.spots, &other)],
        claims: load.targets(),
        figures: load.figures()?,
        files: vec![("mfs-load.csv".to_owned(), load.data(context, &params))],
        legend: table::legend(),
        params,
        ..Findings::default()
    })
}

/// The small variant: the first workload at the rate with the most contention.
fn small(spec: &FlowLoad) -> FlowLoad {
    let mut small = spec.clone();
    small.cluster.requests = spec.quick_requests;
    small.cases.truncate(1);
    for cards in [&mut small.grid.cards, &mut small.control.grid.cards] {
        cards.drain(..cards.len().saturating_sub(1));
    }
    small
}

/// The indices of [`OURS`], [`FAIR`] and [`APART`].
///
/// # Errors
/// If one of them, or a system that is compared, is missing.
fn places(spec: &FlowLoad) -> anyhow::Result<[usize; 3]> {
    let place = |name: &str| {
        let found = spec.systems.iter().position(|system| system.name == name);
        found.with_context(|| format!("flow_load.systems: `{name}` is missing; add it"))
    };
    for name in spec.rivals.iter().chain(&spec.classes) {
        place(name)?;
    }
    Ok([place(OURS)?, place(FAIR)?, place(APART)?])
}

impl Load<'_> {
    /// The use of the busiest card under fair sharing, in percent.
    fn used(&self, spot: usize) -> Option<Mean> {
        let percent = |score: &Score| Some(100.0 * score.busiest_card?);
        self.sweep.mean(at(spot, self.fair), percent)
    }

    /// Requests in time: ours over another system's.
    fn in_time(&self, spot: usize, other: usize) -> Option<Mean> {
        self.in_time_of(spot, self.ours, other)
    }

    /// Requests in time: one system's over another's.
    fn in_time_of(&self, spot: usize, system: usize, other: usize) -> Option<Mean> {
        let share = |score: &Score| Some(score.attainment);
        self.sweep.over(at(spot, system), at(spot, other), share)
    }
}

/// A system at a spot. Every spot has one rate.
fn at(spot: usize, system: usize) -> At {
    (spot, 0, system)
}

#[cfg(test)]
mod tests;
