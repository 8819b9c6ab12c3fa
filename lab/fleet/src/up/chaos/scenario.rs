//! The definition of a scenario, and the parser of its table; the tables are in `scenes.rs`.
//!
//! A line is a time in seconds and an order in words. A, B and C are the regions, in an order drawn
//! from the seed; `us` stands for itself. Every line comes up to half a second late, by the seed.

use std::time::Duration;

use meridian_base::Rng;

use super::super::order::{Act, Order, What};

/// A table, and the promise to its clients.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) topology: &'static str,
    pub(super) promise: Promise,
    pub(super) table: Table,
}

/// The faults and their times.
pub(super) enum Table {
    /// Seconds from the start, and the fault.
    Lines(&'static [(f64, &'static str)]),
    /// Random kills and cuts for this many seconds, each repaired a few seconds later.
    Storm(f64),
}

/// Effects of the faults that clients may see. In every case each request ends exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// None.
    NothingLost,
    /// Only an answer that had started may break off: a request without any byte of an answer is
    /// retried elsewhere.
    OnlyStarted,
    /// In addition, a request may be refused with 503: it reached a suspended gateway, which was
    /// asked to end before it read the request.
    StartedOrRefused,
    /// Anything: losses are only shown.
    Nothing,
}

/// One event of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) deed: Deed,
}

/// The kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// A fault, or its repair.
    Order(Order),
    /// Shifts a process's wall clock by this many seconds.
    Clock { of: String, by: i64 },
    /// Waits until no gateway waits for this suspended replica, or for this region's gateway:
    /// waiting requests are broken off or retried elsewhere while it is suspended.
    Left { what: What, name: String },
}

impl Scenario {
    /// Whether any process's clock is shifted.
    pub(super) fn sets_clocks(&self) -> bool {
        matches!(self.table, Table::Lines(lines) if lines.iter().any(|(_, l)| l.starts_with("clock")))
    }

    /// The events and their times for this random generator.
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

/// About one fault a second, each repaired two to six seconds later. Only one gateway at a time is
/// dead and no link resets, so every client always has a gateway to use.
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

/// Parses a line of a table.
fn deed(line: &str, regions: &[&str; 3]) -> Option<Deed> {
    let mut words = line.split(' ');
    let (act, what) = (words.next()?, words.next()?);
    if act == "clock" {
        let by = words.next()?.parse().ok()?;
        return Some(Deed::Clock { of: named(what, regions), by });
    }
    let act = match act {
        "left" => None,
        "kill" => Some(Act::Kill),
        "revive" => Some(Act::Revive),
        "restart" => Some(Act::Restart),
        "stop" => Some(Act::Stop),
        "end" => Some(Act::End),
        "reload" => Some(Act::Reload),
        "edit" => Some(Act::Edit),
        "cut" => Some(Act::Cut),
        "slow" => Some(Act::Slow),
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
    words.next().is_none().then_some(match act {
        Some(act) => Deed::Order(Order { act, what, name }),
        None => Deed::Left { what, name },
    })
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
    use crate::up::chaos::scenes::{ALL, SHORT};

    // Every table can be read, whatever the seed; the same seed yields the same table, another seed
    // another.
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

    // Each table repairs its faults: none is left at the end.
    #[test]
    fn every_fault_is_mended() {
        for scenario in ALL.iter().chain(SHORT) {
            let mut broken = std::collections::BTreeMap::new();
            for step in scenario.steps(&mut Rng::new(7)) {
                match step.deed {
                    Deed::Order(Order { act: Act::Reload | Act::Edit, .. })
                    | Deed::Clock { .. }
                    | Deed::Left { .. } => {}
                    Deed::Order(Order { act, what, name }) => {
                        let mended = matches!(act, Act::Revive | Act::Restart);
                        broken.insert(format!("{what:?} {name}"), !mended);
                    }
                }
            }
            let left: Vec<_> = broken.iter().filter(|(_, broken)| **broken).collect();
            assert!(left.is_empty(), "{}: {left:?}", scenario.name);
        }
    }
}
