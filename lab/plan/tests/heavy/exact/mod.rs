//! An exact solver for the minimum load of the fullest link, when each group's bytes are split over
//! its ways.
//!
//! A linear program: minimise t such that each group's shares sum to one and no link carries more
//! than t of its capacity. Splitting is the best that a scheduler of many operations can do, so no
//! scheduler's fullest link is emptier.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};

/// For each group and each of its ways, the load of the group's whole demand on links, as a share
/// of their capacity.
pub(crate) type Demand = Vec<Vec<Vec<(u32, f64)>>>;

/// The least utilisation of the fullest link.
pub(crate) fn least(demand: &Demand) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let fullest = problem.add_var(1.0, (0.0, f64::INFINITY));
    let mut links: BTreeMap<u32, Vec<(Variable, f64)>> = BTreeMap::new();
    for ways in demand {
        let mut shares = Vec::new();
        for loads in ways {
            let share = problem.add_var(0.0, (0.0, f64::INFINITY));
            shares.push((share, 1.0));
            for (link, load) in loads {
                links.entry(*link).or_insert_with(|| vec![(fullest, -1.0)]).push((share, *load));
            }
        }
        problem.add_constraint(shares, ComparisonOp::Eq, 1.0);
    }
    for link in links.into_values() {
        problem.add_constraint(link, ComparisonOp::Le, 0.0);
    }
    match problem.solve() {
        Ok(SolveOutcome::Solution(found)) => found.objective(),
        other => panic!("splitting is always possible: {other:?}"),
    }
}
