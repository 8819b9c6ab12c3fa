//! Ways to enforce the order of flows, and delays and losses of the coordinator.

use meridian_tools::cluster::Score;
use meridian_tools::table::Table;

use super::at;
use super::grid::{COLUMNS, Spot};
use crate::experiment::mfs::sweep::{Sweep, interval};

/// A row for each system at each spot.
pub(super) fn table(spots: &[Spot], sweep: &Sweep<'_>) -> Table {
    let first = sweep.spec.systems.first().map_or("", |system| system.name.as_str());
    let over = format!("in time / {first}");
    let fixed = ["system", "in time, %", over.as_str(), "TTFT mean, ms", "exchange, ms"];
    let header = COLUMNS.into_iter().chain(fixed).collect::<Vec<_>>();
    let mut table = Table::new("How the order is enforced and coordinated", &header);
    for (nth, spot) in spots.iter().enumerate() {
        for (system, of) in sweep.spec.systems.iter().enumerate() {
            let show = |digits: usize, get: fn(&Score) -> Option<f64>| {
                let mean = sweep.mean(at(nth, system), get);
                mean.map_or("-".to_owned(), |mean| format!("{:.digits$}", mean.mean))
            };
            let share = |score: &Score| Some(score.attainment);
            let ratio = sweep.over(at(nth, system), at(nth, 0), share);
            table.row(spot.columns().into_iter().chain([
                of.name.clone(),
                show(1, |score| Some(100.0 * score.attainment)),
                ratio.map_or("-".to_owned(), interval),
                show(1, |score| Some(score.ttft.mean)),
                show(3, |score| score.cct),
            ]));
        }
    }
    table
}
