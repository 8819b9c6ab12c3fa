//! The table as a file for `meridian flow doctor`, which reads a card's use and looks up the gain.
//!
//! The numbers are rounded as in the table of lab/results/mfs-load.md, so that a test can compare the two.

use meridian_tools::stats::Mean;

use super::{FAIR, Load, OURS};
use crate::experiment::Context;

/// The two systems of each ratio of requests in time.
const RATIOS: [[&str; 2]; 5] = [
    [OURS, FAIR],
    ["two_class", FAIR],
    ["two_class_floor", FAIR],
    [OURS, "two_class"],
    [OURS, "two_class_floor"],
];

impl Load<'_> {
    /// A line for each workload, rate of the cards and granularity, after a header.
    pub(super) fn data(&self, context: &Context<'_>, params: &str) -> String {
        let quick = if context.quick { " --quick" } else { "" };
        let mut text = format!(
            "# Written by `meridian experiment mfs-load --seeds {}{quick}`; do not edit.\n\
             # Parameters {params}. Use and contention under fair sharing; ratios of requests in time\n\
             # with 95 % intervals over seeds.\n",
            context.seeds,
        );
        let names = ["workload", "card_gbps", "kv_layers", "use_percent"].map(str::to_owned);
        let contention = ["contention_ttft", "contention_exchange", "in_time_percent"];
        let mut header = names.to_vec();
        header.extend(contention.map(str::to_owned));
        for [a, b] in RATIOS {
            header.extend(["", "_low", "_high"].map(|end| format!("{a}_over_{b}{end}")));
        }
        text.push_str(&header.join(","));
        text.push('\n');
        for nth in 0..self.spots.len() {
            text.push_str(&self.line(nth).join(","));
            text.push('\n');
        }
        text
    }

    fn line(&self, nth: usize) -> Vec<String> {
        let spot = &self.spots[nth];
        let percent =
            |share: Option<f64>| share.map_or(String::new(), |share| format!("{share:.1}"));
        let mut cells =
            vec![spot.case.clone(), spot.gigabits().to_string(), spot.layers.to_string()];
        cells.push(percent(self.used(nth).map(|used| used.mean)));
        let apart = (self.fair, self.apart);
        cells.push(self.ratio(nth, apart, |score| Some(score.ttft.mean)));
        cells.push(self.ratio(nth, apart, |score| score.cct));
        cells.push(percent(self.sweep.share(super::at(nth, self.ours)).map(|share| 100.0 * share)));
        for [a, b] in RATIOS {
            let places = self.sweep.place(a).zip(self.sweep.place(b));
            match places.and_then(|(a, b)| self.in_time_of(nth, a, b)) {
                Some(Mean { mean, low, high }) => {
                    cells.extend([mean, low, high].map(|value| format!("{value:.2}")));
                }
                None => cells.extend([const { String::new() }; 3]),
            }
        }
        cells
    }
}
