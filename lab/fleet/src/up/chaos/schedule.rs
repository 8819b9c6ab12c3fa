//! A schedule: the faults of a run, drawn or from a table, each with its events.
//!
//! A line of a table is a time or a span in seconds, and an order in words; the end of a span revives
//! the part. A, B and C are the regions, in an order drawn from the seed; `us` stands for itself.
//! Every event of a table comes up to half a second late, by the seed.

use std::time::Duration;

use meridian_base::Rng;
use meridian_protocol::admin::Role;

use super::super::order::{Act, Order, What};
use super::wait::Moment;

/// A name in an order: the replica that the last [`Deed::Moment`] found.
pub(super) const FOUND: &str = "";

/// The faults of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    /// Ordered by start.
    pub(super) faults: Vec<Fault>,
    /// One fault is repaired before the next one starts, however long its events take.
    pub(super) in_turn: bool,
}

/// A fault from its start to its repair. A table is one fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    /// Its kind, in words.
    pub(super) kind: &'static str,
    /// Whether it may silence a gateway, or a link between gateways.
    pub(super) silences: bool,
    /// The events in their order; the last one repairs.
    pub(super) events: Vec<(Duration, Deed)>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// A fault, or its repair.
    Order(Order),
    /// Shifts a process's wall clock by this many seconds.
    Clock { of: String, by: i64 },
    /// Waits until no gateway waits for this suspended replica, or for this region's gateway:
    /// waiting requests are broken off or retried elsewhere while it is suspended.
    Left { what: What, name: String },
    /// Waits until a replica of this role is at this moment of a request. The search starts at the
    /// replica with this number.
    Moment { role: Role, moment: Moment, first: usize },
}

impl Fault {
    /// The events of a table.
    pub(super) fn of_table(kind: &'static str, lines: &[&str], rng: &mut Rng) -> Fault {
        let regions = shuffled(rng);
        let mut events: Vec<Event> = lines.iter().flat_map(|line| read(line, &regions)).collect();
        // Where one ends as another starts, the start comes first.
        events.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.ends.cmp(&b.ends)));
        Fault::late(kind, events, rng)
    }

    /// About one fault a second, each repaired two to six seconds later. Only one gateway at a time
    /// is dead and no link resets, so every client always has a gateway to use.
    pub(super) fn storm(kind: &'static str, seconds: f64, rng: &mut Rng) -> Fault {
        let regions = shuffled(rng);
        let (mut at, mut gateways_live, mut events) = (0.0, 0.0, Vec::new());
        while at < seconds {
            let mut pick = |from: &[&str]| from[rng.below(from.len())].to_owned();
            let region = pick(&["A", "B", "C"]);
            let (link, broken) =
                (pick(&["A/B", "A>C", "C>B", "B/C", "B>A"]), pick(&["cut", "slow"]));
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
            events.extend(read(&format!("{at}-{mended} {act} {what}"), &regions));
            at += 0.5 + 1.5 * rng.unit();
        }
        Fault::late(kind, events, rng)
    }

    fn late(kind: &'static str, events: Vec<Event>, rng: &mut Rng) -> Fault {
        let late =
            |event: Event| (Duration::from_secs_f64(event.at + rng.unit() / 2.0), event.deed);
        let mut events: Vec<(Duration, Deed)> = events.into_iter().map(late).collect();
        events.sort_by_key(|(at, _)| *at);
        let silences = events.iter().any(|(_, deed)| deed.silences());
        Fault { kind, silences, events }
    }
}

impl Deed {
    /// Whether it affects a link, or suspends a gateway. Then two gateways may count differently: the
    /// one gives up before the other reads.
    fn silences(&self) -> bool {
        match self {
            Deed::Order(Order { what: What::Link, act, .. }) => *act != Act::Slow,
            Deed::Order(Order { what: What::Gateway | What::Region, act, .. }) => *act == Act::Stop,
            _ => false,
        }
    }
}

fn shuffled(rng: &mut Rng) -> [&'static str; 3] {
    let mut regions = ["us", "eu", "asia"];
    for at in (1..regions.len()).rev() {
        regions.swap(at, rng.below(at + 1));
    }
    regions
}

/// An event before it is delayed.
struct Event {
    at: f64,
    /// Whether it is the end of a span.
    ends: bool,
    deed: Deed,
}

/// The events of a line.
fn read(line: &str, regions: &[&str; 3]) -> Vec<Event> {
    parsed(line, regions).expect("a test reads every table")
}

fn parsed(line: &str, regions: &[&str; 3]) -> Option<Vec<Event>> {
    let mut words = line.split(' ');
    let (time, act, what) = (words.next()?, words.next()?, words.next()?);
    let (at, end): (f64, Option<f64>) = match time.split_once('-') {
        Some((at, end)) => (at.parse().ok()?, Some(end.parse().ok()?)),
        None => (time.parse().ok()?, None),
    };
    let now = |deed| Event { at, ends: false, deed };
    if act == "clock" {
        let by = words.next()?.parse().ok()?;
        if end.is_some() || words.next().is_some() {
            return None;
        }
        return Some(vec![now(Deed::Clock { of: named(what, regions), by })]);
    }
    let mut names: Vec<String> = words.map(|name| named(name, regions)).collect();
    if what == "control" {
        names.push("control".to_owned());
    }
    let what = word(what)?;
    if act == "left" {
        let name = names.pop().filter(|_| end.is_none() && names.is_empty())?;
        return Some(vec![now(Deed::Left { what, name })]);
    }
    if names.is_empty() {
        return None;
    }
    let act = word(act)?;
    let order = |act, name: &String| Deed::Order(Order { act, what, name: name.clone() });
    let starts = names.iter().map(|name| now(order(act, name)));
    let end = |name| end.map(|at| Event { at, ends: true, deed: order(Act::Revive, name) });
    Some(starts.chain(names.iter().filter_map(end)).collect())
}

/// An act, or a kind of part, as the page's orders name it.
fn word<T: serde::de::DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}

/// A name with A, B and C replaced by regions.
fn named(name: &str, regions: &[&str; 3]) -> String {
    let letter = |c: char| match c {
        'A'..='C' => regions[c as usize - 'A' as usize].to_owned(),
        other => other.to_string(),
    };
    name.chars().map(letter).collect()
}
