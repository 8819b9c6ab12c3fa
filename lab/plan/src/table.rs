//! The policy table: the all-reduce algorithm of each group, by message size.
//!
//! It is a plain value. Its executor (NCCL's tuner, a daemon) reads it as a whole and switches
//! tables at an epoch that all members count in operations of the communicator, never at a time:
//! ranks that use different tables hang.

use crate::collective::{Algorithm, Choice, best};
use crate::instance::Rated;
use crate::topology::GpuId;

/// The table of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyTable {
    /// Numbers the tables of one plan; all ranks of a communicator switch at the same operation.
    pub epoch: u64,
    /// A line for each group of more than one GPU.
    pub groups: Vec<GroupPolicy>,
}

/// The policy of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPolicy {
    /// Its members by rank; rings go in this order.
    pub members: Vec<GpuId>,
    /// Its algorithms with latency, time a byte and load on each link, for an online scheduler.
    pub choices: Vec<Choice>,
    /// Up to this many bytes, this algorithm; the last row has no limit.
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

/// The cheapest algorithm at each size, with equal neighbours merged.
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
    /// The algorithm for `bytes`.
    #[must_use]
    pub fn pick(&self, bytes: f64) -> Option<Algorithm> {
        self.rows.iter().find(|(end, _)| bytes <= *end).map(|(_, algorithm)| *algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Loads;

    // Correction 13: a table applies to a numbered epoch, and every size has one answer, the
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
