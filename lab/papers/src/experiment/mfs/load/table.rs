//! The use of the busiest card, what contention costs there, and what MFS gains.

use meridian_tools::cluster::Score;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::{Load, at, grid};
use crate::experiment::mfs::sweep::interval;

/// Descriptions of the table's columns.
pub(super) fn legend() -> Vec<String> {
    [
        "busiest card, %: mean share of its rate that the busiest card carries under fair sharing, over the whole run",
        "contention: fair sharing over fair sharing with separate networks for KV and collectives; mean TTFT and mean exchange",
        "mfs / fair: mean TTFT and mean exchange",
        "in time, %: requests whose first token met its objective, by system",
        "in time: requests in time under MFS over those under the other system, with the 95 % interval over seeds",
        "ahead, level or behind: by the mean over seeds; not certain where the interval includes zero. Intervals are bootstrapped from the seeds",
        "layers per KV flow: `all` sends the KV of all layers as one flow, after prefill",
    ]
    .map(str::to_owned)
    .to_vec()
}

impl Load<'_> {
    /// A row for each workload, rate of the cards and granularity.
    pub(super) fn table(&self) -> Table {
        let mut header: Vec<String> = grid::COLUMNS.map(str::to_owned).to_vec();
        let fixed = [
            "busiest card, %",
            "contention: TTFT",
            "contention: exchange",
            "mfs / fair: TTFT",
            "mfs / fair: exchange",
        ];
        header.extend(fixed.map(str::to_owned));
        header
            .extend(self.spec.systems.iter().map(|system| format!("in time, %: {}", system.name)));
        header.push(format!("in time: mfs / best of {}", self.spec.rivals.join(", ")));
        header.extend(self.spec.classes.iter().map(|name| format!("in time: mfs / {name}")));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new("The gain over the use of the busiest card", &header);
        for (nth, spot) in self.spots.iter().enumerate() {
            let mut row = spot.columns().to_vec();
            row.push(self.used(nth).map_or("-".to_owned(), |used| format!("{:.1}", used.mean)));
            for (a, b) in [(self.fair, self.apart), (self.ours, self.fair)] {
                row.push(self.ratio(nth, (a, b), |score| Some(score.ttft.mean)));
                row.push(self.ratio(nth, (a, b), |score| score.cct));
            }
            row.extend((0..self.spec.systems.len()).map(|system| {
                let share = self.sweep.share(at(nth, system));
                share.map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share))
            }));
            row.push(self.over_best(nth));
            row.extend(self.spec.classes.iter().map(|name| {
                shown(self.sweep.place(name).and_then(|other| self.in_time(nth, other)))
            }));
            table.row(row);
        }
        table
    }

    pub(super) fn ratio(
        &self,
        spot: usize,
        (a, b): (usize, usize),
        of: impl Fn(&Score) -> Option<f64>,
    ) -> String {
        let ratio = self.sweep.over(at(spot, a), at(spot, b), of);
        ratio.map_or("-".to_owned(), |ratio| format!("{:.2}", ratio.mean))
    }

    fn over_best(&self, spot: usize) -> String {
        let best = self.sweep.best(spot, 0, &self.spec.rivals);
        let Some(best) = best else { return "-".to_owned() };
        format!("{}, {}", shown(self.in_time(spot, best)), self.spec.systems[best].name)
    }
}

fn shown(ratio: Option<Mean>) -> String {
    ratio.map_or("-".to_owned(), interval)
}
