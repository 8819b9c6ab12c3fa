//! The results of a run with random faults: how requests ended, how soon TTFT recovered, and all
//! problems.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use meridian_base::{median, quantile};

use super::super::tenants;
use super::super::world::World;
use super::answers::End;
use super::clients::Record;
use crate::page::table;

/// TTFT has recovered when the P90 of this many consecutive requests is at most `BACK` times the
/// calm one.
const IN_A_ROW: usize = 20;
const BACK: f64 = 1.5;

/// Start and repair of a fault.
pub(super) struct Fault {
    pub(super) kind: &'static str,
    /// Whether it may silence a gateway, or a link between gateways.
    pub(super) silences: bool,
    pub(super) from: Instant,
    pub(super) mended: Instant,
}

/// One half of a run.
pub(super) struct Half {
    pub(super) resume: bool,
    pub(super) records: Vec<Record>,
    pub(super) faults: Vec<Fault>,
    /// From the engines' own logs: requests of the restricted tenant that engines in other regions
    /// received, and all client requests that engines received.
    pub(super) engines: Taken,
}

/// Requests in the engines' logs.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) all: u64,
    pub(super) forbidden: Vec<String>,
}

impl Taken {
    /// Reads the logs of all engines.
    pub(super) fn of(world: &World) -> Taken {
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
            if id.starts_with("kept-") && !permitted {
                self.forbidden.push(id.to_owned());
            }
        }
    }
}

impl Half {
    fn count(&self, of: impl Fn(&Record) -> bool) -> u64 {
        self.records.iter().filter(|record| of(record)).count() as u64
    }

    /// All problems, one sentence each.
    pub(super) fn judge(&self, faults: &mut Vec<String>) {
        let mut wrong: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for record in &self.records {
            if let Some(why) = self.wrong(record) {
                wrong.entry(why).or_default().push(&record.id);
            }
        }
        for (why, ids) in wrong {
            let shown = ids[..ids.len().min(5)].join(", ");
            faults.push(format!("{} requests {why}: {shown}", ids.len()));
        }
        for id in &self.engines.forbidden {
            faults.push(format!("{id} reached an engine that its rule forbids"));
        }
        if self.count(|record| record.end == End::Whole) == 0 || self.engines.all == 0 {
            faults.push("no request was answered, so nothing was tested".into());
        }
    }

    fn wrong(&self, record: &Record) -> Option<String> {
        let why = match &record.end {
            End::Whole | End::Broken => return None,
            End::Hung if self.excuses_silence(record) => return None,
            End::Hung => "stopped without an end while every gateway ran and no link was cut",
            End::Silent => "ended without an end marker and without an error",
            End::MixedUp => "got the answer to another prompt",
            End::Doubled => "got more text than their answer has",
            End::Lost => "were never answered",
            End::Denied => "got a 403 although a permitted replica was up",
            End::Forbidden => "were answered in a place that their rule forbids",
            End::Odd(what) => return Some(format!("got {what}")),
        };
        Some(why.to_owned())
    }

    /// Whether a gateway on its path may have been suspended, or a link cut.
    fn excuses_silence(&self, record: &Record) -> bool {
        let mut faults = self.faults.iter().filter(|fault| fault.silences);
        faults.any(|fault| fault.from <= record.ended && record.sent <= fault.mended)
    }

    /// P90 of TTFT before the first fault.
    fn calm(&self) -> Option<Duration> {
        let first = self.faults.first()?.from;
        p90(self.records.iter().filter(|record| record.sent < first))
    }

    /// Time from each repair until the P90 recovered; none if that was not observed.
    fn backs(&self) -> Vec<(&'static str, Option<Duration>)> {
        let Some(calm) = self.calm() else { return Vec::new() };
        let mut sent: Vec<&Record> = self.records.iter().filter(|r| r.ttft.is_some()).collect();
        sent.sort_by_key(|record| record.sent);
        let back = |fault: &Fault| {
            let from = sent.partition_point(|record| record.sent < fault.mended);
            let good = |row: &&[&Record]| {
                p90(row.iter().copied()).is_some_and(|p90| p90 <= calm.mul_f64(BACK))
            };
            let row = sent[from..].windows(IN_A_ROW).find(good)?;
            Some(row[0].sent - fault.mended)
        };
        self.faults.iter().map(|fault| (fault.kind, back(fault))).collect()
    }
}

fn p90<'a>(records: impl Iterator<Item = &'a Record>) -> Option<Duration> {
    let times: Vec<f64> = records.filter_map(|record| Some(record.ttft?.as_secs_f64())).collect();
    quantile(&times, 0.9).map(Duration::from_secs_f64)
}

/// The faults by kind, and the recovery time of TTFT after each.
pub(super) fn faults(halves: &[Half]) -> String {
    let mut kinds: BTreeMap<&str, Vec<Option<Duration>>> = BTreeMap::new();
    for (kind, back) in halves.iter().flat_map(Half::backs) {
        kinds.entry(kind).or_default().push(back);
    }
    let seconds =
        |back: Option<f64>| back.map_or_else(|| "-".to_owned(), |back| format!("{back:.1} s"));
    let mut shown = table(&["fault", "times", "TTFT P90 back: median", "longest", "not seen"]);
    let mut all = 0;
    for (kind, backs) in &kinds {
        let seen: Vec<f64> = backs.iter().flatten().map(Duration::as_secs_f64).collect();
        all += backs.len();
        shown.add_row([
            (*kind).to_owned(),
            backs.len().to_string(),
            seconds(median(&seen)),
            seconds(quantile(&seen, 1.0)),
            (backs.len() - seen.len()).to_string(),
        ]);
    }
    format!("{shown}\n   {all} faults; TTFT by the wall clock")
}

/// The outcomes of requests, with and without resume, for each tenant.
pub(super) fn requests(halves: &[Half]) -> String {
    let mut shown = table(&[
        "resume",
        "tenant",
        "sent",
        "whole",
        "broken off",
        "hung up",
        "wrong",
        "moved",
        "refused",
    ]);
    for half in halves {
        for (tenant, kept) in [("anywhere", false), ("eu alone", true)] {
            if half.count(|record| record.kept == kept) == 0 {
                continue;
            }
            let of = |end: &End| half.count(|r| r.kept == kept && r.end == *end);
            let sum = |of: fn(&Record) -> u32| -> u32 {
                half.records.iter().filter(|r| r.kept == kept).map(of).sum()
            };
            shown.add_row([
                if half.resume { "on" } else { "off" }.to_owned(),
                tenant.to_owned(),
                half.count(|r| r.kept == kept).to_string(),
                of(&End::Whole).to_string(),
                of(&End::Broken).to_string(),
                of(&End::Hung).to_string(),
                half.count(|r| r.kept == kept && half.wrong(r).is_some()).to_string(),
                sum(|r| r.moved).to_string(),
                sum(|r| r.refused).to_string(),
            ]);
        }
    }
    shown.to_string()
}
