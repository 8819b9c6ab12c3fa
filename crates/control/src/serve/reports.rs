//! The gateways' latest load reports. Kept only in memory: a control plane that restarts receives
//! them again within a third of a lease.

use std::collections::BTreeMap;

use meridian_wire::registry::{Load, Renew, Seen};

use crate::store::LeaseId;

/// One gateway's report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    pub(super) lease: LeaseId,
    pub(super) held: u32,
    pub(super) replicas: BTreeMap<String, Load>,
}

/// The newest report of each gateway, by its name.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<String, Report>);

impl Reports {
    /// Stores a report; returns the observations of replicas that differ from the last report under
    /// the same lease, to be written to the store.
    pub(super) fn take(
        &mut self,
        gateway: &str,
        lease: LeaseId,
        renew: Renew,
    ) -> BTreeMap<String, Option<Seen>> {
        let before = self.0.remove(gateway).filter(|last| last.lease == lease);
        let before = before.map(|last| last.replicas).unwrap_or_default();
        let mut differs = BTreeMap::new();
        for (name, load) in &renew.replicas {
            if before.get(name).map(|last| &last.seen) != Some(&load.seen) {
                differs.insert(name.clone(), Some(load.seen.clone()));
            }
        }
        for name in before.keys().filter(|name| !renew.replicas.contains_key(*name)) {
            differs.insert(name.clone(), None);
        }
        let report = Report { lease, held: renew.held, replicas: renew.replicas };
        self.0.insert(gateway.to_owned(), report);
        differs
    }

    /// The observations could not be written: all of them have to be sent again.
    pub(super) fn forget(&mut self, gateway: &str) {
        self.0.remove(gateway);
    }

    /// Drops gateways that are no longer alive.
    pub(super) fn keep(&mut self, lives: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| lives(name));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Report)> {
        self.0.iter().map(|(name, report)| (name.as_str(), report))
    }
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

    // Only changes are written. Under a new lease everything is, since the old lease took its
    // records with it.
    #[test]
    fn only_changes_are_written() {
        let mut reports = Reports::default();
        let (one, two) = (LeaseId(1), LeaseId(2));
        let names = |differs: &BTreeMap<String, Option<Seen>>| {
            let sign = |seen: &Option<Seen>| if seen.is_some() { '+' } else { '-' };
            differs.iter().map(|(name, seen)| format!("{}{name}", sign(seen))).collect::<Vec<_>>()
        };
        let mut take =
            |lease, states: &[(&str, &str)]| names(&reports.take("g", lease, renew(states)));
        assert_eq!(take(one, &[("a", "up"), ("b", "up")]), ["+a", "+b"]);
        assert_eq!(take(one, &[("a", "up"), ("b", "up")]), [""; 0]);
        assert_eq!(take(one, &[("a", "down")]), ["+a", "-b"]);
        assert_eq!(take(two, &[("a", "down")]), ["+a"]);
    }
}
