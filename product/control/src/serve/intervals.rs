//! When gateways and replicas were up and down, as far as the control plane hears of it: from leases
//! that begin and end, and from what gateways report about replicas.
//!
//! It follows the registry like any other follower. A replica is in the best state in which a gateway
//! sees it; the intervals of each gateway's own view are at its admin port. Intervals are kept in
//! memory: after a restart they begin with the state that is found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use meridian_protocol::intervals::{DOWN, History, Intervals, REMOVED, UP};
use meridian_protocol::registry::{Gateway, Seen, public_addresses};

use super::Shared;
use super::reports::Stored;
use crate::chosen::ChosenWatch;
use crate::registry::{Kept, Key, Kind, Refused, View};
use crate::store::{Batch, Event, Keys, Store, Watch};

/// Gateways, and replicas, that are gone and whose histories are kept.
const MOST_GONE: usize = 1024;
/// Pause before the registry is read again after a watch that ended.
const AGAIN: Duration = Duration::from_millis(200);

/// The states in which a gateway sees a replica, the best one first.
const STATES: [&str; 4] = [UP, "draining", "unproven", DOWN];

/// The histories of all gateways and replicas.
#[derive(Debug, Default)]
pub(super) struct Observed {
    view: View,
    replicas: BTreeMap<String, History>,
    gateways: BTreeMap<String, History>,
    /// Gateways that give back their leases, until the watch shows it.
    leaving: BTreeMap<String, Gateway>,
    /// Those that did, and when, until they register again or another one has their address.
    left: BTreeMap<String, (u64, Gateway)>,
}

/// Follows the registry; never returns.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut identity = shared.identity.subscribe();
    loop {
        identity.mark_unchanged();
        if let Ok(watch) = begin(&shared).await {
            tokio::select! {
                () = follow(&shared, watch) => {}
                _ = identity.changed() => {}
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn begin(shared: &Shared) -> Result<ChosenWatch, Refused> {
    let view = shared.registry.view().await?;
    let watch = shared.registry.store().watch(&Keys::prefix(""), view.revision.next());
    shared.observed().found(view, shared.date_ms());
    shared.changes.send_modify(|count| *count += 1);
    Ok(watch)
}

async fn follow(shared: &Shared, mut watch: ChosenWatch) {
    while let Ok(batch) = watch.next().await {
        shared.observed().apply(&batch, shared.date_ms());
        shared.changes.send_modify(|count| *count += 1);
    }
}

impl Observed {
    /// The registry, as far as the watch has shown it.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Gateways that left in order, as they last were.
    #[cfg(feature = "route53")]
    pub(super) fn left(&self) -> impl Iterator<Item = &Gateway> {
        self.left.values().map(|(_, gateway)| gateway)
    }

    /// What the store has of a gateway's reports, as far as the watch has shown it.
    pub(super) fn stored_of(&self, gateway: &str) -> Stored {
        let of = |(pair, kept): (&String, &Kept<Seen>)| {
            let (replica, by) = pair.split_once('/')?;
            (by == gateway).then(|| (replica.to_owned(), kept.record.clone()))
        };
        let seen = self.view.seen.iter().filter_map(of).collect();
        let report = self.view.loads.get(gateway).map(|kept| kept.record.clone());
        Stored { seen, report }
    }

    /// The histories at this date.
    pub(super) fn read(&self, now_ms: u64) -> Intervals {
        let at = |all: &BTreeMap<String, History>| all.values().map(|one| one.at(now_ms)).collect();
        Intervals { now_ms, replicas: at(&self.replicas), gateways: at(&self.gateways) }
    }

    /// The registry as it is at the start, or after a watch that could not continue.
    fn found(&mut self, view: View, now_ms: u64) {
        let before = std::mem::replace(&mut self.view, view);
        let names = |view: &View| -> (Vec<String>, Vec<String>) {
            (view.gateways.keys().cloned().collect(), view.replicas.keys().cloned().collect())
        };
        let (mut gateways, mut replicas) = names(&before);
        let (more, others) = names(&self.view);
        gateways.extend(more);
        replicas.extend(others);
        gateways.iter().for_each(|name| self.gateway(name, "found", now_ms));
        replicas.iter().for_each(|name| self.replica(name, now_ms));
    }

    fn apply(&mut self, batch: &Batch, now_ms: u64) {
        self.view.apply(batch);
        let mut replicas = BTreeSet::new();
        for event in &batch.events {
            let text = match event {
                Event::Put(entry) => &entry.key,
                Event::Deleted(key) => key,
            };
            let Some(key) = Key::parse(text) else { continue };
            match key.kind() {
                Kind::Gateway => self.gateway(key.name(), "registered", now_ms),
                Kind::Replica => drop(replicas.insert(key.name().to_owned())),
                Kind::Seen => {
                    let replica = key.name().split('/').next().unwrap_or_default();
                    replicas.insert(replica.to_owned());
                }
                Kind::Region | Kind::Load => {}
            }
        }
        replicas.iter().for_each(|name| self.replica(name, now_ms));
    }

    /// Notes whether a gateway is alive; `begun` is the cause of it.
    fn gateway(&mut self, name: &str, begun: &str, now_ms: u64) {
        let (state, cause) = if let Some(kept) = self.view.gateways.get(name) {
            if kept.record.leaving {
                self.leaving.insert(name.to_owned(), kept.record.clone());
            } else {
                self.leaving.remove(name);
                let there = public_addresses(&kept.record);
                let is_other =
                    |one: &Gateway| !public_addresses(one).iter().any(|ip| there.contains(ip));
                self.left.retain(|other, (_, gateway)| other != name && is_other(gateway));
            }
            (UP, begun)
        } else if let Some(gateway) = self.leaving.remove(name) {
            self.leave(name, gateway, now_ms);
            (REMOVED, "left")
        } else {
            (DOWN, "lease_expired")
        };
        enter(&mut self.gateways, name, (state, cause), &[DOWN, REMOVED], now_ms);
    }

    /// Keeps a gateway that left, unless others have its addresses; beyond a limit without the oldest.
    fn leave(&mut self, name: &str, mut gateway: Gateway, now_ms: u64) {
        let others = self.view.gateways.values().filter(|kept| !kept.record.leaving);
        let there: Vec<_> = others.flat_map(|kept| public_addresses(&kept.record)).collect();
        gateway.public = public_addresses(&gateway);
        gateway.public.retain(|ip| !there.contains(ip));
        if gateway.public.is_empty() {
            return;
        }
        self.left.insert(name.to_owned(), (now_ms, gateway));
        if self.left.len() > MOST_GONE {
            let oldest = self.left.iter().min_by_key(|(_, (when, _))| *when);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.left.remove(&name);
            }
        }
        assert!(self.left.len() <= MOST_GONE, "only the newest gateways that left are kept");
    }

    /// Notes the best state in which a gateway sees a replica.
    fn replica(&mut self, name: &str, now_ms: u64) {
        let is_there = self.view.replicas.get(name).is_some_and(|kept| kept.record.is_there());
        let (state, cause) = match (is_there, best(&self.view, name)) {
            (false, None) => (REMOVED, "removed"),
            (true, None) => ("unseen", "no_gateway"),
            (_, Some(seen)) => (seen.state.as_str(), seen.cause.as_str()),
        };
        // One that is down is still registered.
        enter(&mut self.replicas, name, (state, cause), &[REMOVED], now_ms);
    }
}

fn best<'a>(view: &'a View, replica: &str) -> Option<&'a Seen> {
    let prefix = format!("{replica}/");
    let of = view.seen.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
    let rank = |seen: &&Seen| STATES.iter().position(|state| *state == seen.state);
    of.map(|(_, kept)| &kept.record).min_by_key(|seen| rank(seen).unwrap_or(STATES.len()))
}

/// Enters a state. Beyond a limit, the oldest histories are forgotten of those in a state of `gone`.
fn enter(
    all: &mut BTreeMap<String, History>,
    name: &str,
    (state, cause): (&str, &str),
    gone: &[&str],
    now_ms: u64,
) {
    let history = all.entry(name.to_owned()).or_insert_with(|| History::of(name));
    if !history.enter(now_ms, state, cause) || all.len() <= MOST_GONE {
        return;
    }
    let begin = |one: &History| one.intervals.back().map(|now| now.begin_ms);
    let gone = |one: &&History| one.state().is_some_and(|state| gone.contains(&state));
    if all.values().filter(gone).count() > MOST_GONE {
        let oldest = all.values().filter(gone).min_by_key(|one| begin(one));
        if let Some(name) = oldest.map(|one| one.name.clone()) {
            all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use meridian_protocol::registry::Replica;
    use serde::Serialize;

    use super::*;
    use crate::store::{Entry, Revision};

    fn put(key: &Key, record: &impl Serialize) -> Event {
        let value = serde_json::to_vec(record).unwrap();
        let (created, modified) = (Revision(1), Revision(1));
        Event::Put(Entry {
            key: key.to_string(),
            value,
            created,
            modified,
            version: 1,
            lease: None,
        })
    }

    fn gone(key: &Key) -> Event {
        Event::Deleted(key.to_string())
    }

    fn said(history: &History) -> Vec<String> {
        let one = |i: &meridian_protocol::intervals::Interval| {
            format!("{} {} {}", i.begin_ms, i.state, i.cause)
        };
        history.intervals.iter().map(one).collect()
    }

    // A gateway whose lease runs out is down, and one that gives it back is not. A replica is as good
    // as the best gateway sees it, keeps its history when it is removed and added again, and is
    // unseen without a gateway.
    #[test]
    fn histories() {
        let mut observed = Observed::default();
        let mut revision = 0;
        let mut at = |observed: &mut Observed, now_ms: u64, events: Vec<Event>| {
            revision += 1;
            observed.apply(&Batch { revision: Revision(revision), events }, now_ms);
        };
        let (a, b) = (Key::gateway("a").unwrap(), Key::gateway("b").unwrap());
        let replica = Key::replica("r").unwrap();
        let record: Replica =
            serde_json::from_str(r#"{"region":"eu","spec":{"url":"http://h:1"}}"#).unwrap();
        let sees = |gateway: &str, state: &str, cause: &str| {
            let (state, cause) = (state.to_owned(), cause.to_owned());
            put(&Key::seen("r", gateway).unwrap(), &Seen { state, cause, adopted: false })
        };
        let gateway = Gateway { region: "eu".to_owned(), ..Gateway::default() };
        at(&mut observed, 1, vec![put(&a, &gateway), put(&b, &gateway), put(&replica, &record)]);
        at(&mut observed, 2, vec![sees("a", "up", "answered")]);
        at(&mut observed, 3, vec![sees("b", "down", "refused")]);
        at(&mut observed, 4, vec![sees("a", "down", "timeout")]);
        at(&mut observed, 5, vec![sees("b", "up", "answered")]);
        let seen = |name: &str| gone(&Key::seen("r", name).unwrap());
        at(&mut observed, 6, vec![gone(&b), seen("b")]);
        let leaves = Gateway { leaving: true, ..gateway };
        at(&mut observed, 7, vec![put(&a, &leaves)]);
        at(&mut observed, 7, vec![gone(&a), seen("a")]);
        at(&mut observed, 8, vec![gone(&replica)]);
        at(&mut observed, 9, vec![put(&replica, &record)]);
        let Intervals { replicas, gateways, .. } = observed.read(10);
        assert_eq!(said(&gateways[0]), ["1 up registered", "7 removed left"]);
        assert_eq!(said(&gateways[1]), ["1 up registered", "6 down lease_expired"]);
        assert_eq!((gateways[0].totals.down_ms, gateways[1].totals.down_ms), (0, 4));
        assert_eq!(
            said(&replicas[0]),
            [
                "1 unseen no_gateway",
                "2 up answered",
                "4 down timeout",
                "5 up answered",
                "6 down timeout",
                "7 unseen no_gateway",
                "8 removed removed",
                "9 unseen no_gateway"
            ]
        );
        assert_eq!(replicas[0].totals.down_ms, 2);
    }

    // Gateways with ever new names leave no more than a fixed number of histories.
    #[test]
    fn bounded() {
        let mut all = BTreeMap::new();
        let gone = &[DOWN, REMOVED];
        enter(&mut all, "lives", (UP, "registered"), gone, 0);
        for n in 0..3000 {
            enter(&mut all, &format!("g{n}"), (UP, "registered"), gone, n);
            enter(&mut all, &format!("g{n}"), (REMOVED, "left"), gone, n);
        }
        assert_eq!(all.len(), 1 + MOST_GONE);
        assert!(all.contains_key("lives") && all.contains_key("g2999"));
    }

    // An outage of more registered replicas than that forgets none of them.
    #[test]
    fn an_outage_is_kept() {
        let mut all = BTreeMap::new();
        let replicas = 2 * MOST_GONE;
        for n in 0..replicas {
            enter(&mut all, &format!("r{n}"), (DOWN, "refused"), &[REMOVED], n as u64);
        }
        assert_eq!(all.len(), replicas);
    }
}
