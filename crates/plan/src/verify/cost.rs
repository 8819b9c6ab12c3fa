//! What slow links cost a plan: the same plan judged with the measured rates, and a new one.

use super::core::Uplink;
use super::locate::Slow;
use crate::check::{check, task_of};
use crate::document::PlanFile;
use crate::fleet::Times;
use crate::import::{MeasuredSpec, TopologySpec};
use crate::model::Subject;
use crate::problem::Problems;
use crate::search::plan;
use crate::topology::{CARD_SHARE, LinkId, Topology};
use crate::units::Rate;

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
    /// Goodput of a new plan for the measured rates; `None` if there is none.
    pub replanned: Option<f64>,
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
    let before = goodputs(file, &planned, subject)?;
    let after = goodputs(file, &measured, subject)?;
    let sum = |of: &[f64]| of.iter().sum::<f64>();
    let shares: Vec<f64> = before.iter().zip(&after).map(|(a, b)| a.min(*b)).collect();
    let replanned = plan(&task_of(file, &measured, subject)).ok();
    Ok(Cost {
        rate: sum(&shares),
        planned: Figures { goodput: sum(&before), times: times(file, &planned, subject, &shares)? },
        measured: Figures {
            goodput: sum(&after),
            times: times(file, &measured, subject, &shares)?,
        },
        replanned: replanned.and_then(|plans| plans.first().map(|one| one.goodput())),
    })
}

/// The plan without its claims, which a slower network does not meet.
fn bare(file: &PlanFile) -> PlanFile {
    let mut bare = file.clone();
    bare.goodput = 0.0;
    bare.cells.iter_mut().for_each(|cell| cell.goodput = 0.0);
    bare
}

/// The goodput of each cell; 0 for one that meets the objectives at no rate.
fn goodputs(file: &PlanFile, topology: &Topology, subject: &Subject) -> Result<Vec<f64>, Problems> {
    let task = task_of(file, topology, subject);
    let fleets = check(&bare(file), topology, subject)?;
    Ok(fleets.iter().map(|one| one.judged(&task).map_or(0.0, |it| it.goodput)).collect())
}

/// The times at a rate for each cell: the worst of the cells.
fn times(
    file: &PlanFile,
    topology: &Topology,
    subject: &Subject,
    rates: &[f64],
) -> Result<Times, Problems> {
    let task = task_of(file, topology, subject);
    let fleets = check(&bare(file), topology, subject)?;
    let mut worst = Times { ttft: 0.0, ttft_within: 0.0, tpot: 0.0 };
    for (fleet, rate) in fleets.iter().zip(rates) {
        let Some(verdict) = fleet.judged(&task) else { return Ok(Times::NEVER) };
        let own = fleet.times(&task, &verdict, *rate);
        worst.ttft = worst.ttft.max(own.ttft);
        worst.ttft_within = worst.ttft_within.max(own.ttft_within);
        worst.tpot = worst.tpot.max(own.tpot);
    }
    Ok(worst)
}
