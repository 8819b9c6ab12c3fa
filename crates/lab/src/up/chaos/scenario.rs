//! The scenarios: tables of faults over time.
//!
//! A line is a time in seconds and an order in words. A, B and C are the regions, in an order that
//! the seed draws; `us` stands for itself. Every line comes up to half a second late, by the seed.

use std::time::Duration;

use meridian_base::Rng;

use super::super::CENTRAL;
use super::super::faults::{Act, Order, What};

/// A table, and what its clients are promised.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) topology: &'static str,
    pub(super) promise: Promise,
    table: Table,
}

enum Table {
    /// Seconds from the start, and what happens.
    Lines(&'static [(f64, &'static str)]),
    /// Kills and cuts by chance for so many seconds, each mended a few seconds later.
    Storm(f64),
}

/// What clients may see of the faults. That every request ends once is promised always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// Nothing at all.
    NothingLost,
    /// Only an answer that had begun may break off: what had no byte out goes elsewhere.
    OnlyBegun,
    /// Anything: it is shown what is lost.
    Nothing,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) deed: Deed,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// A fault, or its mending.
    Order(Order),
    /// A process's wall clock is set to so many seconds beside the machine's.
    Clock { of: String, by: i64 },
}

const fn two_layer(
    name: &'static str,
    what: &'static str,
    promise: Promise,
    table: Table,
) -> Scenario {
    Scenario { name, what, topology: "two_layer", promise, table }
}

/// All of them.
pub(super) static ALL: &[Scenario] = &[
    two_layer(
        "replicas",
        "replicas are killed, one after the other and two at once",
        Promise::OnlyBegun,
        Table::Lines(&[
            (0.0, "kill replica A-engine-0"),
            (2.0, "revive replica A-engine-0"),
            (3.0, "kill replica B-engine-1"),
            (3.2, "kill replica B-engine-2"),
            (5.0, "kill replica C-engine-3"),
            (6.0, "revive replica B-engine-1"),
            (7.0, "revive replica B-engine-2"),
            (8.0, "kill replica A-engine-2"),
            (8.0, "revive replica C-engine-3"),
            (10.0, "revive replica A-engine-2"),
        ]),
    ),
    two_layer(
        "gateways",
        "gateways are killed, one after the other and two at once; the others adopt",
        Promise::OnlyBegun,
        Table::Lines(&[
            (0.0, "kill gateway A"),
            (6.0, "revive gateway A"),
            (11.0, "kill gateway B"),
            (12.0, "kill gateway C"),
            (19.0, "revive gateway C"),
            (20.0, "revive gateway B"),
        ]),
    ),
    two_layer(
        "control",
        "the control plane is killed, and while it is dead a gateway and a replica",
        Promise::OnlyBegun,
        Table::Lines(&[
            (0.0, "kill control"),
            (2.0, "kill gateway A"),
            (3.0, "kill replica B-engine-0"),
            // It serves by the view that it kept, also what may run in A alone.
            (5.0, "revive gateway A"),
            (6.0, "revive replica B-engine-0"),
            (7.0, "revive control"),
            (10.0, "kill control"),
            (11.0, "revive control"),
        ]),
    ),
    two_layer(
        "partition",
        "links fall silent both ways, and are reset",
        Promise::OnlyBegun,
        Table::Lines(&[
            (0.0, "cut link A/B"),
            (6.0, "revive link A/B"),
            (9.0, "kill link A/C"),
            (9.0, "kill link B/C"),
            (13.0, "revive link A/C"),
            (13.0, "revive link B/C"),
        ]),
    ),
    two_layer(
        "one-way",
        "nothing passes from one region to another, while the way back works",
        Promise::OnlyBegun,
        Table::Lines(&[
            (0.0, "cut link A>B"),
            (6.0, "revive link A>B"),
            (9.0, "cut link B>C"),
            (10.0, "cut link C>A"),
            (16.0, "revive link C>A"),
            (17.0, "revive link B>C"),
        ]),
    ),
    two_layer(
        "slow",
        "links take 400 ms more each way, with jitter, and 256 KiB/s",
        Promise::NothingLost,
        Table::Lines(&[
            (0.0, "slow link A/B"),
            (3.0, "slow link B/C"),
            (8.0, "revive link A/B"),
            (11.0, "revive link B/C"),
        ]),
    ),
    two_layer(
        "rolling",
        "everything is told to end and started again, one after the other",
        Promise::NothingLost,
        Table::Lines(&[
            (0.0, "restart control"),
            (1.0, "restart gateway A"),
            (4.0, "restart gateway B"),
            (7.0, "restart gateway C"),
            (10.0, "restart replica A-engine-0"),
            (10.0, "restart replica A-engine-1"),
            (11.0, "restart replica A-engine-2"),
            (11.0, "restart replica A-engine-3"),
            (12.0, "restart replica B-engine-0"),
            (12.0, "restart replica B-engine-1"),
            (13.0, "restart replica B-engine-2"),
            (13.0, "restart replica B-engine-3"),
            (14.0, "restart replica C-engine-0"),
            (14.0, "restart replica C-engine-1"),
            (15.0, "restart replica C-engine-2"),
            (15.0, "restart replica C-engine-3"),
        ]),
    ),
    two_layer(
        "clocks",
        "wall clocks jump, forwards and back, each process's for itself",
        Promise::NothingLost,
        Table::Lines(&[
            (0.0, "clock A-gateway +1800"),
            (1.0, "clock B-gateway -1800"),
            (2.0, "clock control +86400"),
            (3.0, "clock C-engine-0 -86400"),
            (4.0, "clock control -1800"),
            (5.0, "clock A-load -86400"),
            (5.5, "clock wan +86400"),
            (6.0, "clock A-gateway -1800"),
            (7.0, "clock B-gateway +1800"),
            (9.0, "clock A-gateway +0"),
            (9.0, "clock control +0"),
        ]),
    ),
    two_layer(
        "regions",
        "whole regions are killed",
        Promise::OnlyBegun,
        Table::Lines(&[
            (0.0, "kill region A"),
            (6.0, "revive region A"),
            (12.0, "kill region B"),
            (16.0, "revive region B"),
        ]),
    ),
    two_layer("storm", "anything, by chance, for 40 s", Promise::OnlyBegun, Table::Storm(40.0)),
    two_layer(
        "one-of-three",
        "one of three gateways is killed for ten seconds, beside `central`",
        Promise::OnlyBegun,
        Table::Lines(&[(0.0, "kill gateway us"), (10.0, "revive gateway us")]),
    ),
    Scenario {
        name: "central",
        what: "the one gateway that serves all regions is killed for ten seconds",
        topology: CENTRAL,
        promise: Promise::Nothing,
        table: Table::Lines(&[(0.0, "kill gateway us"), (10.0, "revive gateway us")]),
    },
];

/// Something of everything, for every run of the tests.
pub(super) static SHORT: &[Scenario] = &[two_layer(
    "brief",
    "something of everything",
    Promise::OnlyBegun,
    Table::Lines(&[
        (0.0, "kill replica A-engine-1"),
        (0.5, "cut link B>C"),
        (1.5, "clock B-gateway +1800"),
        (2.0, "revive replica A-engine-1"),
        (3.0, "kill control"),
        (3.5, "kill gateway A"),
        (4.0, "restart replica C-engine-0"),
        (4.5, "revive link B>C"),
        (5.5, "revive control"),
        (6.5, "slow link B/C"),
        (9.0, "revive gateway A"),
        (10.0, "restart gateway B"),
        (11.5, "kill link A/B"),
        (12.5, "clock B-gateway +0"),
        (13.0, "revive link A/B"),
        (13.0, "revive link B/C"),
    ]),
)];

impl Scenario {
    /// Whether a process's clock is set.
    pub(super) fn sets_clocks(&self) -> bool {
        matches!(self.table, Table::Lines(lines) if lines.iter().any(|(_, l)| l.starts_with("clock")))
    }

    /// What happens when, by this chance.
    pub(super) fn steps(&self, rng: &mut Rng) -> Vec<Step> {
        let regions = shuffled(rng);
        let lines = match self.table {
            Table::Lines(lines) => {
                lines.iter().map(|(at, line)| (*at, (*line).to_owned())).collect()
            }
            Table::Storm(seconds) => storm(seconds, rng),
        };
        let mut steps: Vec<Step> = lines
            .iter()
            .map(|(at, line)| Step {
                at: Duration::from_secs_f64(at + rng.unit() / 2.0),
                deed: deed(line, &regions).expect("a test reads every table"),
            })
            .collect();
        steps.sort_by_key(|step| step.at);
        steps
    }
}

fn shuffled(rng: &mut Rng) -> [&'static str; 3] {
    let mut regions = ["us", "eu", "asia"];
    for at in (1..regions.len()).rev() {
        regions.swap(at, rng.below(at + 1));
    }
    regions
}

/// A fault a second or so, each mended two to six seconds later. One gateway at a time is dead and
/// no link resets, so that every client always has somewhere to go.
fn storm(seconds: f64, rng: &mut Rng) -> Vec<(f64, String)> {
    let (mut at, mut gateways_live, mut lines) = (0.0, 0.0, Vec::new());
    while at < seconds {
        let mut pick = |from: &[&str]| from[rng.below(from.len())].to_owned();
        let region = pick(&["A", "B", "C"]);
        let (link, broken) = (pick(&["A/B", "A>C", "C>B", "B/C", "B>A"]), pick(&["cut", "slow"]));
        let ended = pick(&["kill", "kill", "kill", "restart"]);
        let mended = at + 2.0 + 4.0 * rng.unit();
        let (act, what) = match rng.below(10) {
            0..2 if at >= gateways_live => {
                gateways_live = mended + 1.0;
                (ended, format!("gateway {region}"))
            }
            2 => (ended, "control".to_owned()),
            3..6 => (broken, format!("link {link}")),
            _ => (ended, format!("replica {region}-engine-{}", rng.below(4))),
        };
        lines.push((at, format!("{act} {what}")));
        lines.push((mended, format!("revive {what}")));
        at += 0.5 + 1.5 * rng.unit();
    }
    lines
}

/// Reads a line of a table.
fn deed(line: &str, regions: &[&str; 3]) -> Option<Deed> {
    let mut words = line.split(' ');
    let (act, what) = (words.next()?, words.next()?);
    if act == "clock" {
        let by = words.next()?.parse().ok()?;
        return Some(Deed::Clock { of: named(what, regions), by });
    }
    let act = match act {
        "kill" => Act::Kill,
        "revive" => Act::Revive,
        "restart" => Act::Restart,
        "cut" => Act::Cut,
        "slow" => Act::Slow,
        _ => return None,
    };
    let what = match what {
        "replica" => What::Replica,
        "gateway" => What::Gateway,
        "region" => What::Region,
        "link" => What::Link,
        "control" => What::Control,
        _ => return None,
    };
    let name = words.next().map_or_else(|| "control".to_owned(), |name| named(name, regions));
    words.next().is_none().then_some(Deed::Order(Order { act, what, name }))
}

/// A name with A, B and C replaced by regions.
fn named(name: &str, regions: &[&str; 3]) -> String {
    let letter = |c: char| match c {
        'A'..='C' => regions[c as usize - 'A' as usize].to_owned(),
        other => other.to_string(),
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every table can be read, whatever the seed; one seed gives one table, another another.
    #[test]
    fn tables_are_made_of_orders() {
        for scenario in ALL.iter().chain(SHORT) {
            for seed in 0..20 {
                let steps = scenario.steps(&mut Rng::new(seed));
                assert!(!steps.is_empty());
                assert_eq!(steps, scenario.steps(&mut Rng::new(seed)), "{}", scenario.name);
                assert!(steps.iter().is_sorted_by_key(|step| step.at), "{}", scenario.name);
            }
            let drawn = |seed| scenario.steps(&mut Rng::new(seed));
            assert_ne!(drawn(1), drawn(2), "{}", scenario.name);
        }
    }

    // What a table breaks it mends: no fault is left when it is over.
    #[test]
    fn every_fault_is_mended() {
        for scenario in ALL.iter().chain(SHORT) {
            let mut broken = std::collections::BTreeMap::new();
            for step in scenario.steps(&mut Rng::new(7)) {
                match step.deed {
                    Deed::Order(Order { act, what, name }) => {
                        let mended = matches!(act, Act::Revive | Act::Restart);
                        broken.insert(format!("{what:?} {name}"), !mended);
                    }
                    Deed::Clock { .. } => {}
                }
            }
            let left: Vec<_> = broken.iter().filter(|(_, broken)| **broken).collect();
            assert!(left.is_empty(), "{}: {left:?}", scenario.name);
        }
    }
}
