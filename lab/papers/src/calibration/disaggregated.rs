//! The points of H100 and H200 with prefill and decode on different replicas, against the engine
//! model with the coefficients of the colocated points.
//!
//! One coefficient for each GPU is fitted on odd rows: by how much a decode step takes longer than
//! a colocated engine's ([`pace`]). Even rows are judged.

pub mod deployment;
pub mod planner;
pub mod procedure;
pub mod replica;

use std::collections::BTreeMap;

use super::points::Side;
use super::silicon::{Errors, tuned};
use super::statistics::error;
use deployment::{Unmodelled, deployments};
use procedure::measure;

/// Errors of all points, and the points that are not modelled.
#[derive(Clone, Debug, Default)]
pub struct Disaggregated {
    /// Errors by GPU, and by whether the row was fitted.
    pub systems: BTreeMap<(&'static str, bool), Errors>,
    /// Points that are not modelled, by reason.
    pub unmodelled: BTreeMap<Unmodelled, usize>,
}

impl Disaggregated {
    /// The errors of all GPUs.
    #[must_use]
    pub fn errors(&self, fitted: bool) -> Errors {
        let mut all = Errors::default();
        for (_, errors) in self.systems.iter().filter(|((_, side), _)| *side == fitted) {
            all.ttft.extend(&errors.ttft);
            all.tpot.extend(&errors.tpot);
        }
        all
    }
}

/// The factor on a decode step of a GPU, fitted on odd rows (example `fit`).
#[must_use]
pub fn pace(gpu: &str) -> f64 {
    if gpu == "h100" { 1.48 } else { 1.24 }
}

/// Judges fitted rows, even rows, or both.
///
/// # Panics
/// When a deployment does not fit its GPUs; every one in the file does.
#[must_use]
pub fn judge(sides: &[bool]) -> Disaggregated {
    let mut all = Disaggregated::default();
    for it in deployments() {
        let it = match it {
            Ok(it) => it,
            Err(why) => {
                *all.unmodelled.entry(why).or_default() += 1;
                continue;
            }
        };
        let fitted = it.point.side == Side::Fitted;
        if !sides.contains(&fitted) {
            continue;
        }
        let tuned = tuned(&it.point).expect("every engine here has a row");
        let ours = measure(&it, &tuned, pace(it.point.gpu)).expect("a measured deployment fits");
        let errors = all.systems.entry((it.point.gpu, fitted)).or_default();
        errors.ttft.push(error(ours.ttft, it.point.ttft));
        errors.tpot.push(error(ours.tpot, it.point.tpot));
    }
    all
}
