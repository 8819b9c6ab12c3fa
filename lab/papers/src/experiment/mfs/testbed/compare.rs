//! Live and simulated results side by side, as ratios to fair sharing.
//!
//! Signs and orders must agree; sizes are only reported. Ratios within [`LEVEL`] of each other count as
//! level, since live runs on a shared machine do not repeat more exactly than that.

use meridian_tools::table::Table;

use super::live::Live;
use super::score::Score;
use super::{FAIR, Simulated};
use crate::experiment::spec::FlowTestbed;

/// Ratios that differ by less are level.
const LEVEL: f64 = 0.05;

/// A figure of a score.
type Metric = (&'static str, fn(&Score) -> f64);

const METRICS: [Metric; 3] = [
    ("in time", |score| score.in_time),
    ("TTFT", |score| score.ttft),
    ("exchange", |score| score.exchange),
];

/// The ratios of every system.
pub(super) struct Compared {
    /// Names; fair sharing is the first.
    names: Vec<String>,
    /// By metric and system: live and simulated.
    ratios: Vec<Vec<[f64; 2]>>,
}

impl Compared {
    /// Scores are in the order of the systems.
    pub(super) fn new(spec: &FlowTestbed, live: &[Score], simulated: &[Score]) -> Compared {
        let fair = spec.systems.iter().position(|system| system.name == FAIR).unwrap_or(0);
        let mut order: Vec<usize> = (0..spec.systems.len()).filter(|at| *at != fair).collect();
        order.insert(0, fair);
        let ratio = |scores: &[Score], get: fn(&Score) -> f64, at: usize| {
            get(&scores[at]) / get(&scores[fair]).max(f64::MIN_POSITIVE)
        };
        let of = |(_, get): &Metric| {
            let both = |at: &usize| [ratio(live, *get, *at), ratio(simulated, *get, *at)];
            order.iter().map(both).collect()
        };
        Compared {
            names: order.iter().map(|at| spec.systems[*at].name.clone()).collect(),
            ratios: METRICS.iter().map(of).collect(),
        }
    }

    /// The live ratio of requests in time.
    pub(super) fn in_time(&self, name: &str) -> f64 {
        let at = self.names.iter().position(|one| one == name);
        at.map_or(f64::NAN, |at| self.ratios[0][at][0])
    }

    /// The ratios with a verdict.
    pub(super) fn table(&self) -> Table {
        let header =
            ["system", "figure", "live / fair", "simulated / fair", "live / simulated", "sign"];
        let mut table = Table::new("Ratios to fair sharing, live and simulated", &header);
        for (at, name) in self.names.iter().enumerate().skip(1) {
            for ((metric, _), ratios) in METRICS.iter().zip(&self.ratios) {
                let [live, simulated] = ratios[at];
                table.row([
                    name.clone(),
                    (*metric).to_owned(),
                    format!("{live:.2}"),
                    format!("{simulated:.2}"),
                    format!("{:.2}", live / simulated),
                    if opposite([1.0; 2], ratios[at]) { "differs" } else { "agrees" }.to_owned(),
                ]);
            }
        }
        table
    }

    /// Pairs of systems that stand one way live and the other way in the simulator. A pair with fair
    /// sharing is a sign, any other an order.
    pub(super) fn opposites(&self) -> Vec<String> {
        let mut found = Vec::new();
        for ((metric, _), ratios) in METRICS.iter().zip(&self.ratios) {
            for (a, one) in ratios.iter().enumerate() {
                for (b, other) in ratios.iter().enumerate().skip(a + 1) {
                    if opposite(*one, *other) {
                        found.push(format!(
                            "{metric}: {} over {} is {:.2} live and {:.2} simulated",
                            self.names[b],
                            self.names[a],
                            other[0] / one[0],
                            other[1] / one[1],
                        ));
                    }
                }
            }
        }
        found
    }
}

/// Whether two systems are in one order live and in the other simulated, neither of them level.
fn opposite(one: [f64; 2], other: [f64; 2]) -> bool {
    let [live, simulated] = [0, 1].map(|side| other[side] / one[side] - 1.0);
    live * simulated < 0.0 && live.abs() > LEVEL && simulated.abs() > LEVEL
}

pub(super) fn legend() -> Vec<String> {
    [
        "in time: share of requests whose TTFT meets their objective; the first eighth does not count.",
        "exchange: mean time of one direction of an exchange, from its sender's readiness to its last byte.",
        "processors: share of the machine in use, of it by programs of low priority that are not part of the run.",
        "link: mean use of the busiest direction of a link.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Median of the live runs, with the least and the most.
pub(super) fn runs(spec: &FlowTestbed, rounds: &[Vec<Live>]) -> Table {
    let header = [
        "system",
        "in time, %",
        "TTFT mean, ms",
        "exchange, ms",
        "processors, %",
        "low priority, %",
        "hosts, %",
        "link, %",
        "MB with permits",
        "failed calls",
    ];
    let title = format!("Live: median of {} runs (least to most)", spec.rounds);
    let mut table = Table::new(title, &header);
    for (system, runs) in spec.systems.iter().zip(rounds) {
        let median = Live::median(runs);
        let range = |digits: usize, get: fn(&Live) -> f64| {
            let (least, most) = runs
                .iter()
                .map(get)
                .fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
            format!("{:.digits$} ({least:.digits$} to {most:.digits$})", get(&median))
        };
        table.row([
            system.name.clone(),
            range(1, |run| 100.0 * run.score.in_time),
            range(0, |run| run.score.ttft),
            range(1, |run| run.score.exchange),
            range(0, |run| 100.0 * run.busy),
            range(0, |run| 100.0 * run.nice),
            range(0, |run| 100.0 * run.own),
            range(0, |run| 100.0 * run.busiest),
            format!("{:.0}", median.gated as f64 / 1e6),
            median.problems.to_string(),
        ]);
    }
    table
}

/// The simulated results alone.
pub(super) fn simulated(spec: &FlowTestbed, found: &Simulated) -> Table {
    let header = ["system", "in time, %", "TTFT mean, ms", "exchange, ms"];
    let title = format!(
        "Simulated: {} requests in {} batches, busiest link used to {:.0} % under fair sharing",
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
