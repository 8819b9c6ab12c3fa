//! The gateways' latest load reports.
//!
//! They are in memory: a control plane that restarts receives them again within a third of a lease.
//! Control planes that share a store also write them there, because each gateway reports to one of them
//! only.

use std::collections::BTreeMap;

use meridian_base::{Duration, Time};
use meridian_protocol::registry::{Load, Renew, Report, Seen};

use crate::store::LeaseId;

/// A report is stored no sooner than this after the last one: autoscalers look at minutes.
const REST: Duration = Duration::from_secs(5);

/// Reports by the names of their gateways.
pub(super) type Reported<'a> = BTreeMap<&'a str, &'a Report>;

/// One gateway's newest report.
#[derive(Debug)]
struct Last {
    lease: LeaseId,
    report: Report,
    /// When a report was stored last.
    stored: Option<Time>,
}

/// The newest report of each gateway, by its name.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<String, Last>);

/// What a store has of a gateway's reports.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// How it sees replicas, by their names.
    pub(super) seen: BTreeMap<String, Seen>,
    /// Its newest report.
    pub(super) report: Option<Report>,
}

/// What to store of a report.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Observations of replicas that differ from those in the store; none for one that is gone.
    pub(super) differs: BTreeMap<String, Option<Seen>>,
    /// The report, if it is new and the last one was stored long enough ago.
    pub(super) due: Option<Report>,
}

impl Reports {
    /// Takes a report. It is compared with what the store has if other control planes write to it, too
    /// (`there`), else with the last one under this lease.
    pub(super) fn take(
        &mut self,
        gateway: &str,
        lease: LeaseId,
        renew: Renew,
        now: Time,
        there: Option<Stored>,
    ) -> Taken {
        let last = self.0.remove(gateway).filter(|last| last.lease == lease);
        let stored = last.as_ref().and_then(|last| last.stored);
        let there = there.unwrap_or_else(|| last.map(known).unwrap_or_default());
        let report = rounded(Report { held: renew.held, replicas: renew.replicas });
        let differs = differing(&there.seen, &report);
        let rests = stored.is_some_and(|at| now < at + REST);
        let is_due = !rests && there.report.as_ref() != Some(&report);
        let due = is_due.then(|| report.clone());
        let stored = if is_due { Some(now) } else { stored };
        self.0.insert(gateway.to_owned(), Last { lease, report, stored });
        Taken { differs, due }
    }

    /// A report could not be stored: all of it has to be stored with the next one.
    pub(super) fn forget(&mut self, gateway: &str) {
        self.0.remove(gateway);
    }

    /// Drops gateways that are no longer alive.
    pub(super) fn keep(&mut self, lives: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| lives(name));
    }

    pub(super) fn all(&self) -> Reported<'_> {
        self.0.iter().map(|(name, last)| (name.as_str(), &last.report)).collect()
    }
}

/// What a store that has every report has after the last one.
fn known(last: Last) -> Stored {
    let seen = last.report.replicas.iter().map(|(name, load)| (name.clone(), load.seen.clone()));
    Stored { seen: seen.collect(), report: Some(last.report) }
}

/// Replicas that are seen in another way than before.
fn differing(before: &BTreeMap<String, Seen>, report: &Report) -> BTreeMap<String, Option<Seen>> {
    let is_new = |(name, load): &(&String, &Load)| before.get(*name) != Some(&load.seen);
    let new = report.replicas.iter().filter(is_new);
    let new = new.map(|(name, load)| (name.clone(), Some(load.seen.clone())));
    let gone = before.keys().filter(|name| !report.replicas.contains_key(*name));
    new.chain(gone.map(|name| (name.clone(), None))).collect()
}

/// Utilisation in hundredths, so that a replica at rest does not change.
fn rounded(mut report: Report) -> Report {
    for load in report.replicas.values_mut() {
        load.utilisation = (load.utilisation * 100.0).round() / 100.0;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renew(states: &[(&str, &str)]) -> Renew {
        let load = |state: &str| Load {
            seen: Seen { state: state.to_owned(), ..Seen::default() },
            ..Load::default()
        };
        let replicas = states.iter().map(|(name, state)| ((*name).to_owned(), load(state)));
        Renew { replicas: replicas.collect(), ..Renew::default() }
    }

    fn names(taken: &Taken) -> Vec<String> {
        let sign = |seen: &Option<Seen>| if seen.is_some() { '+' } else { '-' };
        taken.differs.iter().map(|(name, seen)| format!("{}{name}", sign(seen))).collect()
    }

    // Only changes are written. Under a new lease everything is, since the old lease took its
    // records with it.
    #[test]
    fn only_changes_are_written() {
        let mut reports = Reports::default();
        let (one, two) = (LeaseId(1), LeaseId(2));
        let mut take = |lease, states: &[(&str, &str)]| {
            names(&reports.take("g", lease, renew(states), Time::ZERO, None))
        };
        assert_eq!(take(one, &[("a", "up"), ("b", "up")]), ["+a", "+b"]);
        assert_eq!(take(one, &[("a", "up"), ("b", "up")]), [""; 0]);
        assert_eq!(take(one, &[("a", "down")]), ["+a", "-b"]);
        assert_eq!(take(two, &[("a", "down")]), ["+a"]);
    }

    // A gateway that moves to another control plane and back is compared with what the store has, not
    // with the last report to this one.
    #[test]
    fn another_control_planes_gateway() {
        let mut reports = Reports::default();
        let seen = |state: &str| Seen { state: state.to_owned(), ..Seen::default() };
        let stored = |state: &str| {
            let seen = [("a".to_owned(), seen(state)), ("b".to_owned(), seen("up"))].into();
            Some(Stored { seen, report: None })
        };
        let mut take = |there| {
            let renewed = renew(&[("a", "up"), ("c", "up")]);
            names(&reports.take("g", LeaseId(1), renewed, Time::ZERO, there))
        };
        assert_eq!(take(stored("up")), ["-b", "+c"]);
        assert_eq!(take(stored("down")), ["+a", "-b", "+c"]);
    }

    // A report is stored when it is new and the last one is some seconds old.
    #[test]
    fn reports_rest() {
        let mut reports = Reports::default();
        let mut store = None;
        let mut is_due = |seconds: u64, held| {
            let renew = Renew { held, ..Renew::default() };
            let there = Stored { report: store.clone(), ..Stored::default() };
            let now = Time::from_millis(seconds * 1000);
            let due = reports.take("g", LeaseId(1), renew, now, Some(there)).due;
            let is_due = due.is_some();
            store = due.or(store.take());
            is_due
        };
        assert!(is_due(0, 1), "the first one");
        assert!(!is_due(2, 2), "too soon");
        assert!(is_due(5, 2));
        assert!(!is_due(20, 2), "the same");
        assert!(is_due(22, 3));
    }
}
