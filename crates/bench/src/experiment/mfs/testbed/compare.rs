//! Live and simulated results side by side, as ratios to fair sharing.
//!
//! Signs and orders must agree; sizes are only reported. A difference below [`LEVEL`] counts as none,
//! since a live run on a shared machine repeats within that.

use super::score::Score;
use super::{FAIR, Simulated};
use crate::experiment::spec::FlowTestbed;
use crate::experiment::table::Table;

/// Ratios that differ by less are level.
const LEVEL: f64 = 0.05;
/// The goal for the size of a live ratio over the simulated one.
const GOAL: f64 = 0.1;

/// A figure of a score; whether more is better.
type Metric = (&'static str, fn(&Score) -> f64);

const METRICS: [Metric; 3] = [
    ("in time", |score| score.in_time),
    ("TTFT", |score| score.ttft),
    ("exchange", |score| score.exchange),
];

pub(super) fn legend() -> Vec<String> {
    vec![
        "in time: share of requests whose TTFT meets their objective, %, without the first eighth."
            .to_owned(),
        "exchange: mean time of one direction of an exchange, from its sender's readiness to its last byte, ms."
            .to_owned(),
    ]
}

/// The simulated results alone.
pub(super) fn simulated(spec: &FlowTestbed, found: &Simulated) -> Table {
    let header = ["system", "in time, %", "TTFT mean, ms", "exchange, ms"];
    let title = format!(
        "{} requests in {} batches, busiest port used to {:.0} % under fair sharing (simulated)",
        found.plan.requests.len(),
        found.plan.batches.len(),
        100.0 * found.busiest,
    );
    let mut table = Table::new(title, &header);
    for (system, score) in spec.systems.iter().zip(&found.scores) {
        table.row([
            system.name.clone(),
            format!("{:.1}", 100.0 * score.in_time),
            format!("{:.0}", score.ttft),
            format!("{:.1}", score.exchange),
        ]);
    }
    table
}
