//! The policy table: which way each group's all-reduce goes, by its size.
//!
//! It is a value. Whoever executes it (NCCL's tuner, a daemon) reads it whole and changes from one
//! table to the next at an epoch that all members count in operations of the communicator, never at
//! a time: ranks that choose from different tables hang.

use crate::collective::{Algorithm, Choice, best};
use crate::instance::Rated;
use crate::topology::GpuId;

/// The table of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyTable {
    /// Counts tables of one plan; a communicator changes between operations, all ranks at the same.
    pub epoch: u64,
    /// A line for each group of more than one GPU.
    pub groups: Vec<GroupPolicy>,
}

/// What a group does.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPolicy {
    /// Its members by rank; rings go in this order.
    pub members: Vec<GpuId>,
    /// Its ways with latency, time a byte and load on each link, for whoever decides again.
    pub choices: Vec<Choice>,
    /// Up to so many bytes, that way; the last has no end.
    pub rows: Vec<(f64, Algorithm)>,
}

/// Sizes that rows may end at: powers of two from 1 KiB to 1 GiB.
const SIZES: core::ops::RangeInclusive<i32> = 10..=30;

impl PolicyTable {
    /// The table of these instances.
    #[must_use]
    pub fn of<'a>(instances: impl Iterator<Item = &'a Rated>) -> PolicyTable {
        let mut groups = Vec::new();
        for rated in instances {
            for (members, choices) in rated.instance.stages.iter().zip(&rated.groups) {
                if !choices.is_empty() {
                    let (members, choices) = (members.clone(), choices.clone());
                    let rows = rows(&choices);
                    groups.push(GroupPolicy { members, choices, rows });
                }
            }
        }
        PolicyTable { epoch: 0, groups }
    }
}

/// The cheapest way at each size, neighbours of one way joined.
fn rows(choices: &[Choice]) -> Vec<(f64, Algorithm)> {
    let mut rows: Vec<(f64, Algorithm)> = Vec::new();
    for power in SIZES {
        let bytes = libm::exp2(f64::from(power));
        let Some(choice) = best(choices, bytes) else { continue };
        match rows.last_mut() {
            Some((end, algorithm)) if *algorithm == choice.algorithm => *end = bytes,
            _ => rows.push((bytes, choice.algorithm)),
        }
    }
    if let Some((end, _)) = rows.last_mut() {
        *end = f64::INFINITY;
    }
    rows
}

impl GroupPolicy {
    /// The way for `bytes`.
    #[must_use]
    pub fn pick(&self, bytes: f64) -> Option<Algorithm> {
        self.rows.iter().find(|(end, _)| bytes <= *end).map(|(_, algorithm)| *algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Loads;

    // Correction 13: a table holds for an epoch that is counted, and every size has one answer, the
    // cheapest, so ranks that read the same table agree.
    #[test]
    fn correction_13_every_size_has_one_answer() {
        let choice = |algorithm, latency, per_byte| {
            let loads = Loads::default();
            Choice { algorithm, latency, per_byte, loads, bottleneck: None }
        };
        let choices =
            vec![choice(Algorithm::Tree, 10e-6, 1e-9), choice(Algorithm::Relayed, 60e-6, 0.1e-9)];
        let rows = rows(&choices);
        assert_eq!(rows, [(32_768.0, Algorithm::Tree), (f64::INFINITY, Algorithm::Relayed)]);
        let group = GroupPolicy { members: vec![GpuId(0), GpuId(1)], choices, rows };
        assert_eq!(group.pick(1.0), Some(Algorithm::Tree));
        assert_eq!(group.pick(1e12), Some(Algorithm::Relayed));
        assert_eq!(PolicyTable::default().epoch, 0);
    }
}
