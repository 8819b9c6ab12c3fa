//! The points of H100 and H200 against the engine model, group by group.

use std::collections::BTreeMap;

use meridian_engine::{Precision, Software, TUNED, Tuned};

use super::points::{Point, Side, Uncovered, points};
use super::procedure::measure;
use super::statistics::error;

/// Relative errors of the points of one group on one side.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    /// Errors of the TTFT.
    pub ttft: Vec<f64>,
    /// Errors of the TPOT.
    pub tpot: Vec<f64>,
}

/// GPU, engine, model and format, which share one set of coefficients.
pub type Group = (&'static str, &'static str, &'static str, &'static str);

/// All errors, and the points that were not judged.
#[derive(Clone, Debug, Default)]
pub struct Silicon {
    /// Errors by group and side.
    pub groups: BTreeMap<(Group, Side), Errors>,
    /// Points that the model cannot describe, by reason.
    pub uncovered: BTreeMap<Uncovered, usize>,
    /// Points whose weights leave no memory for KV in the model.
    pub unfit: Vec<Point>,
}

impl Silicon {
    /// The errors of all groups on these sides.
    #[must_use]
    pub fn errors(&self, sides: &[Side]) -> Errors {
        let mut all = Errors::default();
        for ((_, side), errors) in &self.groups {
            if sides.contains(side) {
                all.ttft.extend(&errors.ttft);
                all.tpot.extend(&errors.tpot);
            }
        }
        all
    }
}

/// The fitted engine of a point. A combination with too few points to fit uses the row of the other
/// GPU.
#[must_use]
pub fn tuned(point: &Point) -> Option<Tuned> {
    let (software, model, precision) = (point.software, point.model.name, point.model.precision);
    Tuned::find(point.gpu, software, model, precision)
        .or_else(|| elsewhere(point.gpu, software, model, precision))
}

fn elsewhere(
    gpu: &'static str,
    software: Software,
    model: &str,
    precision: Precision,
) -> Option<Tuned> {
    let same =
        |row: &Tuned| (row.software, row.model, row.precision) == (software, model, precision);
    TUNED.into_iter().find(same).map(|row| Tuned { gpu, ..row })
}

/// Judges the points on these sides: one in `every`, by position.
#[must_use]
pub fn judge(sides: &[Side], every: usize) -> Silicon {
    let mut silicon = Silicon::default();
    let mut position = 0;
    for point in points() {
        let point = match point {
            Ok(point) => point,
            Err(why) => {
                *silicon.uncovered.entry(why).or_default() += 1;
                continue;
            }
        };
        if !sides.contains(&point.side) {
            continue;
        }
        position += 1;
        if position % every == 0 {
            silicon.add(&point);
        }
    }
    silicon
}

impl Silicon {
    fn add(&mut self, point: &Point) {
        let ours = tuned(point).and_then(|tuned| measure(point, &tuned).ok());
        let Some(ours) = ours else {
            self.unfit.push(*point);
            return;
        };
        let errors = self.groups.entry((point.group(), point.side)).or_default();
        errors.ttft.push(error(ours.ttft, point.ttft));
        errors.tpot.push(error(ours.tpot, point.tpot));
    }
}
