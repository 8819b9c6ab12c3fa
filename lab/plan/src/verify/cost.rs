//! What slow links cost a plan: the same plan judged with the measured rates, and a new one.

use super::core::Uplink;
use super::locate::Slow;
use crate::check::{check, task_of};
use crate::document::PlanFile;
use crate::fleet::{Fleet, Times, Verdict};
use crate::import::{MeasuredSpec, TopologySpec};
use crate::model::Subject;
use crate::problem::Problems;
use crate::search::plan;
use crate::task::Task;
use crate::topology::{CARD_SHARE, LinkId, Topology};
use crate::units::Rate;

/// A plan that keeps this share of its goodput has lost nothing.
const KEPT: f64 = 0.9995;

/// The performance of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Requests a second within both objectives.
    pub goodput: f64,
    /// The times at the common rate; those of the slowest cell.
    pub times: Times,
}

/// What the measured rates cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Requests a second at which times are compared: the lower of both goodputs.
    pub rate: f64,
    /// As planned.
    pub planned: Figures,
    /// With the measured rates, and the best all-reduce for them.
    pub measured: Figures,
    /// Goodput of a new plan for the measured rates; `None` if nothing is lost, or there is none.
    pub replanned: Option<f64>,
}

impl Cost {
    /// Whether the plan serves less than planned.
    #[must_use]
    pub fn loses(&self) -> bool {
        self.measured.goodput < KEPT * self.planned.goodput
    }
}

/// The topology with the measured rates of slow places. A place that can't be told apart from others
/// is slow in all of them, which is the same for every measured pair.
#[must_use]
pub fn with_measured(spec: &TopologySpec, slow: &[Slow], uplinks: &[Uplink]) -> TopologySpec {
    let Ok(topology) = spec.build() else { return spec.clone() };
    let mut changed = spec.clone();
    let mut set = |link: LinkId, measured: f64| {
        let (link, rate) = (topology.link_text(link), Rate(measured / CARD_SHARE));
        changed.measured.retain(|one| one.link != link);
        changed.measured.push(MeasuredSpec { link, rate });
    };
    for one in slow {
        let links = one.places.iter().flat_map(|place| place.links(&topology));
        for link in links.filter(|link| topology.usable(*link) > one.measured) {
            set(link, one.measured);
        }
    }
    for one in uplinks.iter().filter(|one| one.is_slow()) {
        set(one.link, one.measured);
    }
    changed
}

/// Judges a plan on the topology as planned and with the measured rates.
///
/// # Errors
///
/// If the plan does not fit on the topology, or serves nothing there.
pub fn cost(
    file: &PlanFile,
    planned: &TopologySpec,
    measured: &TopologySpec,
    subject: &Subject,
) -> Result<Cost, Problems> {
    let (planned, measured) = (planned.build()?, measured.build()?);
    let (before, after) =
        (Judged::of(file, &planned, subject)?, Judged::of(file, &measured, subject)?);
    let shares: Vec<f64> = before.goodputs().zip(after.goodputs()).map(|(a, b)| a.min(b)).collect();
    // A plan that loses nothing needs no new one, and the search takes long.
    let loses = after.goodputs().sum::<f64>() < KEPT * before.goodputs().sum::<f64>();
    let replanned = loses.then(|| plan(&task_of(file, &measured, subject)).ok()).flatten();
    Ok(Cost {
        rate: shares.iter().sum(),
        planned: before.figures(&shares),
        measured: after.figures(&shares),
        replanned: replanned.and_then(|plans| plans.first().map(|one| one.goodput())),
    })
}

/// A plan's cells on a topology.
struct Judged<'a> {
    task: Task<'a>,
    /// Each with its verdict; none for one that meets the objectives at no rate.
    cells: Vec<(Fleet, Option<Verdict>)>,
}

impl<'a> Judged<'a> {
    fn of(
        file: &PlanFile,
        topology: &'a Topology,
        subject: &'a Subject,
    ) -> Result<Judged<'a>, Problems> {
        let task = task_of(file, topology, subject);
        let judged = |fleet: Fleet| {
            let verdict = fleet.judged(&task);
            (fleet, verdict)
        };
        let cells = check(&bare(file), topology, subject)?.into_iter().map(judged).collect();
        Ok(Judged { task, cells })
    }

    fn goodputs(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().map(|(_, verdict)| verdict.as_ref().map_or(0.0, |one| one.goodput))
    }

    /// Its goodput, and the times at a rate for each cell: the worst of the cells.
    fn figures(&self, rates: &[f64]) -> Figures {
        let mut worst = Times { ttft: 0.0, ttft_within: 0.0, tpot: 0.0 };
        for ((fleet, verdict), rate) in self.cells.iter().zip(rates) {
            let own = verdict
                .as_ref()
                .map_or(Times::NEVER, |verdict| fleet.times(&self.task, verdict, *rate));
            worst.ttft = worst.ttft.max(own.ttft);
            worst.ttft_within = worst.ttft_within.max(own.ttft_within);
            worst.tpot = worst.tpot.max(own.tpot);
        }
        Figures { goodput: self.goodputs().sum(), times: worst }
    }
}

/// The plan without its claims, which a slower network does not meet.
fn bare(file: &PlanFile) -> PlanFile {
    let mut bare = file.clone();
    bare.goodput = 0.0;
    for cell in &mut bare.cells {
        cell.goodput = 0.0;
        cell.instances.iter_mut().for_each(|one| one.rate = 0.0);
    }
    bare
}
