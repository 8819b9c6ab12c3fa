//! The account of a run's requests: how they ended, for loads and for clients that know their answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use comfy_table::Table;
use meridian_base::{median, quantile};

use super::super::tenants;
use super::super::world::World;
use super::answers::End;
use super::checks::Checks;
use super::clients::{EU_ALONE, Habits, Record};
use super::done::Done;
use super::run::Played;
use super::scenario::{Promise, Scenario};
use crate::page::{ms, table};

/// The problem of a request, as a place in this list, and none if it ended as it may.
const WRONG: [&str; 8] = [
    "requests that were silent while every gateway ran and no link was cut",
    "answers without an end mark and without an error",
    "answers to another prompt",
    "answers with more than their text",
    "requests without an answer",
    "refusals (403) although a permitted replica was up",
    "answers from a place that a rule forbids",
    "other answers",
];

fn wrong(record: &Record, done: &[Done]) -> Option<usize> {
    // A gateway on its path may have been suspended, or a link cut.
    let may_be_silent =
        |fault: &Done| fault.silences && fault.from <= record.ended && record.sent <= fault.mended;
    match &record.end {
        End::Whole | End::Broken => None,
        End::Hung if done.iter().any(may_be_silent) => None,
        End::Hung => Some(0),
        End::Silent => Some(1),
        End::MixedUp => Some(2),
        End::Doubled => Some(3),
        End::Lost => Some(4),
        End::Denied => Some(5),
        End::Forbidden => Some(6),
        End::Odd(_) => Some(7),
    }
}

/// Checks the requests of clients that know their answers.
pub(super) fn check(
    records: &[Record],
    crowd: &[Habits],
    done: &[Done],
    world: &World,
    checks: &mut Checks,
) {
    for (at, what) in WRONG.into_iter().enumerate() {
        let such = records.iter().filter(|record| wrong(record, done) == Some(at));
        let name = |record: &Record| match &record.end {
            End::Odd(what) => format!("{}: {what}", record.id),
            _ => record.id.clone(),
        };
        checks.none(what, &such.map(name).collect::<Vec<_>>());
    }
    for tenant in crowd.iter().flat_map(Habits::tenants) {
        let is_whole = |record: &&Record| record.tenant == tenant && record.end == End::Whole;
        let whole = records.iter().filter(is_whole).count();
        checks.some(format!("complete answers, {tenant}"), whole as u64);
    }
    let taken = Taken::of(world);
    checks.none("requests at an engine that their rule forbids", &taken.forbidden);
    checks.some("requests in the engines' logs", taken.all);
}

fn by_tenant(records: &[Record]) -> BTreeMap<&'static str, Vec<&Record>> {
    let mut tenants: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        tenants.entry(record.tenant).or_default().push(record);
    }
    tenants
}

/// Requests in the engines' logs.
#[derive(Default)]
struct Taken {
    all: u64,
    /// Requests of the restricted tenant that engines in other regions received.
    forbidden: Vec<String>,
}

impl Taken {
    /// Reads the logs of all engines.
    fn of(world: &World) -> Taken {
        let mut taken = Taken::default();
        for region in &world.regions {
            for replica in &region.replicas {
                let log = world.fleet.dir().join(format!("{}.log", replica.name));
                taken.read(&log, region.name == tenants::REGION);
            }
        }
        taken
    }

    fn read(&mut self, log: &Path, permitted: bool) {
        let text = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        for id in text.lines().filter_map(|line| line.strip_prefix("received request ")) {
            self.all += 1;
            if id.starts_with(EU_ALONE) && !permitted {
                self.forbidden.push(id.to_owned());
            }
        }
    }
}

/// The faults by kind, and the recovery time of TTFT after each.
pub(super) fn faults(runs: &[Played]) -> String {
    let mut kinds: BTreeMap<&str, Vec<Option<Duration>>> = BTreeMap::new();
    for run in runs {
        for fault in &run.done {
            kinds.entry(fault.kind).or_default().push(run.course.back(fault));
        }
    }
    let mut shown = table(&["fault", "times", "TTFT back: median", "longest", "not seen"]);
    for (kind, backs) in &kinds {
        let seen: Vec<f64> = backs.iter().flatten().map(Duration::as_secs_f64).collect();
        shown.add_row([
            (*kind).to_owned(),
            backs.len().to_string(),
            seconds(median(&seen)),
            seconds(quantile(&seen, 1.0)),
            (backs.len() - seen.len()).to_string(),
        ]);
    }
    let all: usize = kinds.values().map(Vec::len).sum();
    let s = if all == 1 { "" } else { "s" };
    let mut text = format!("{shown}\n   {all} fault{s}; TTFT by the wall clock");
    for Played { course, done, notes, .. } in runs {
        let (before, worst) = (ms(course.before()), ms(course.worst(done)));
        text.push_str(&format!("\n   TTFT: before {before}, worst while broken {worst}"));
        notes.iter().for_each(|note| text.push_str(&format!("\n{note}")));
    }
    text
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1} s"))
}

/// A run in the table of all runs: a row for the loads, or for each tenant.
pub(super) fn rows(scenario: &Scenario, resume: bool, played: &Played) -> Vec<Vec<String>> {
    let Played { done, course, loads, records, .. } = played;
    let name = format!("{}{}", scenario.name, if resume { ", resuming" } else { "" });
    let rate = course.rate(done).map_or("-".into(), |rate| format!("{:.0} %", 100.0 * rate));
    // None if one of them was never seen to be over.
    let backs: Option<Vec<_>> = done.iter().map(|fault| course.back(fault)).collect();
    let back = backs.and_then(|backs| backs.into_iter().max());
    let back = seconds(back.map(|back| back.as_secs_f64()));
    let may_be_lost = match scenario.loads {
        Some(Promise::NothingLost) => "nothing lost",
        Some(Promise::OnlyStarted) | None => "only started ones",
        Some(Promise::StartedOrRefused) => "started ones, 503",
        Some(Promise::Nothing) => "-",
    };
    let row = |clients: &str, counts: [u64; 6], known: [String; 3]| {
        let words = [&name, clients, may_be_lost].map(str::to_owned);
        let counts = counts.map(|count| count.to_string());
        [&words[..], &counts, &known, &[rate.clone(), back.clone()]].concat()
    };
    let of_tenant = |(tenant, of): (&str, Vec<&Record>)| {
        let count = |is: &dyn Fn(&Record) -> bool| of.iter().filter(|record| is(record)).count();
        let ends = |end: &End| count(&|record| record.end == *end) as u64;
        let sum = |of_one: fn(&Record) -> u32| of.iter().map(|record| of_one(record)).sum::<u32>();
        let longest = of.iter().map(|record| record.ended - record.sent).max();
        let counts = [
            of.len() as u64,
            ends(&End::Whole),
            ends(&End::Hung),
            ends(&End::Broken),
            ends(&End::Lost),
            sum(|record| record.moved).into(),
        ];
        let known = [
            count(&|record| wrong(record, done).is_some()).to_string(),
            sum(|record| record.refused).to_string(),
            seconds(longest.map(|time| time.as_secs_f64())),
        ];
        row(tenant, counts, known)
    };
    let of_loads = loads.iter().map(|c| {
        let counts = [c.sent, c.ok, c.aborted, c.errors - c.bare, c.bare, c.moved];
        row("loads", counts, ["-"; 3].map(str::to_owned))
    });
    of_loads.chain(by_tenant(records).into_iter().map(of_tenant)).collect()
}

/// All runs.
pub(super) fn all(rows: Vec<Vec<String>>) -> Table {
    let mut shown = table(&[
        "",
        "clients",
        "may be lost",
        "sent",
        "answered",
        "hung up",
        "broken off",
        "without a byte",
        "moved",
        "wrong",
        "refused",
        "longest",
        "rate while broken",
        "TTFT back",
    ]);
    shown.add_rows(rows);
    shown
}
