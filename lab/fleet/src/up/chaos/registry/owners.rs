//! How long gateways of two regions serve one replica.
//!
//! The registry shows who serves a replica: each gateway writes its observation of the replicas that it
//! has, under its lease. Two regions serve one if both have such an observation and neither drains the
//! replica. That happens when a gateway comes back: the region that adopted its replicas hands them
//! back when it sees the gateway, or loses its lease. So it lasts at most a lease, and until etcd notices
//! its end. A replica that is handed back drains until the requests there have ended, which is counted apart.
//!
//! The gateways' own lists are read, too. A gateway that has lost its lease keeps serving its replicas
//! (notes/decisions/lost-control-plane.md), so these times may be longer, and are only reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use meridian_protocol::registry::{Seen, Snapshot};
use serde::Deserialize;
use tokio::task::JoinSet;

use super::super::super::world::World;
use super::super::checks::Checks;
use crate::etcd::{Entry, Found, list};
use crate::gateway::LEASE;
use crate::page::table;
use crate::{Client, Result};

/// Interval between two samples.
const EVERY: Duration = Duration::from_millis(100);
/// Timeout of a read of the registry, and of a gateway's list.
const ASKED: Duration = Duration::from_millis(500);
/// etcd looks twice a second for leases that have ended (`server/lease/lessor.go`).
const NOTICED: Duration = Duration::from_millis(500);
/// The longest time: a lease, its end, and the samples around it.
const MOST: Duration = LEASE.saturating_add(NOTICED).saturating_add(EVERY.saturating_mul(2));
/// A list of a gateway is current for this time.
const CURRENT: Duration = Duration::from_millis(300);
/// Between two samples that are further apart, the registry was lost: it cannot change then, and
/// leases do not end.
const LOST: Duration = Duration::from_secs(1);
/// Where the observations are.
const PREFIX: &str = "meridian/observed/replica/";
const DRAINING: &str = "draining";

/// Samples the registry and the gateways until the end.
pub(super) struct Owners {
    _tasks: JoinSet<()>,
    seen: Arc<Mutex<OwnerState>>,
}

#[derive(Default)]
struct OwnerState {
    /// What each region's gateway serves, and when it said so.
    gateways: BTreeMap<String, (Instant, BTreeSet<String>)>,
    figures: Figures,
}

/// The longest times.
#[derive(Debug, Default)]
pub(super) struct Figures {
    samples: u64,
    /// Time without a sample.
    lost: Duration,
    /// By the registry, without replicas that are handed back.
    serving: Longest,
    /// By the registry, with them.
    listed: Longest,
    /// By the gateways.
    gateways: Longest,
}

/// The longest time that something lasted.
#[derive(Debug, Default)]
struct Longest {
    now: BTreeMap<String, Duration>,
    times: u64,
    most: Duration,
    which: String,
}

impl Longest {
    /// These replicas have it now, and those that had it at the last sample, `since` then. A time
    /// begins with the first sample that shows it: on a busy machine samples are further apart, and
    /// what was between two of them proves nothing.
    fn take(&mut self, names: &BTreeSet<String>, since: Duration) {
        self.now.retain(|name, _| names.contains(name));
        for name in names {
            let Some(lasted) = self.now.get_mut(name) else {
                self.now.insert(name.clone(), Duration::ZERO);
                self.times += 1;
                continue;
            };
            *lasted += since;
            if *lasted > self.most {
                (self.most, self.which) = (*lasted, name.clone());
            }
        }
    }
}

/// A replica in a gateway's list, as far as it matters.
#[derive(Deserialize)]
struct Listed {
    url: String,
    state: String,
}

impl Owners {
    /// Begins to sample. `registry` names the replicas.
    pub(super) fn start(world: &World, registry: &Snapshot) -> Result<Owners> {
        let (mut tasks, seen) = (JoinSet::new(), Arc::new(Mutex::new(OwnerState::default())));
        let mut names = BTreeMap::new();
        for (name, replica) in &registry.replicas {
            names.insert(replica.spec.url.clone(), name.clone());
            names.extend(replica.spec.from.values().map(|url| (url.clone(), name.clone())));
        }
        for region in &world.regions {
            let Some(spec) = &region.spec else { continue };
            let url = format!("http://{}/admin/replicas", spec.admin);
            tasks.spawn(ask(region.name.clone(), url, names.clone(), seen.clone()));
        }
        let etcd = world.planes.as_ref().and_then(|planes| planes.etcd.as_ref());
        let endpoints = etcd.map(|etcd| etcd.endpoints()).unwrap_or_default();
        tasks.spawn(sample(endpoints, seen.clone()));
        Ok(Owners { _tasks: tasks, seen })
    }

    /// The figures so far.
    pub(super) fn end(self) -> Figures {
        std::mem::take(&mut lock(&self.seen).figures)
    }
}

fn lock(seen: &Mutex<OwnerState>) -> MutexGuard<'_, OwnerState> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks one gateway for the replicas that it serves, again and again.
async fn ask(
    region: String,
    url: String,
    names: BTreeMap<String, String>,
    seen: Arc<Mutex<OwnerState>>,
) {
    let (client, mut ticks) = (Client::keeping(), tokio::time::interval(EVERY));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = tokio::time::timeout(ASKED, client.json::<Vec<Listed>>(&url)).await;
        let Ok(Ok(all)) = asked else { continue };
        let serves = all.into_iter().filter(|one| one.state != DRAINING);
        let serves = serves.filter_map(|one| names.get(&one.url).cloned()).collect();
        lock(&seen).gateways.insert(region.clone(), (Instant::now(), serves));
    }
}

/// Reads the registry again and again, at a member that answers.
async fn sample(endpoints: Vec<String>, seen: Arc<Mutex<OwnerState>>) {
    let (client, mut ticks) = (Client::keeping(), tokio::time::interval(EVERY));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut member, mut last, mut last_own) = (0, Instant::now(), Instant::now());
    loop {
        ticks.tick().await;
        own(&mut lock(&seen), last_own.elapsed());
        last_own = Instant::now();
        let (now, url) = (Instant::now(), &endpoints[member % endpoints.len()]);
        let Ok(Found::At(_, entries)) = list(&client, url, PREFIX, None, ASKED).await else {
            member += 1;
            continue;
        };
        let mut state = lock(&seen);
        let figures = &mut state.figures;
        let since = now - std::mem::replace(&mut last, now);
        figures.samples += 1;
        if since > LOST {
            figures.lost += since;
        }
        let counted = if since > LOST { Duration::ZERO } else { since };
        figures.serving.take(&of_two(&entries, |seen| seen.state != DRAINING), counted);
        figures.listed.take(&of_two(&entries, |_| true), counted);
    }
}

/// The replicas that gateways of two regions have now.
fn own(state: &mut OwnerState, since: Duration) {
    let mut regions: BTreeMap<&String, usize> = BTreeMap::new();
    for (at, serves) in state.gateways.values() {
        if at.elapsed() <= CURRENT {
            serves.iter().for_each(|name| *regions.entry(name).or_default() += 1);
        }
    }
    let two = regions.into_iter().filter(|(_, count)| *count > 1);
    let two = two.map(|(name, _)| name.clone()).collect();
    state.figures.gateways.take(&two, since);
}

/// The replicas that gateways of two regions observe, in a way that counts.
fn of_two(entries: &[Entry], counts: impl Fn(&Seen) -> bool) -> BTreeSet<String> {
    let mut regions: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for entry in entries {
        let Some((replica, _)) =
            entry.key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        let Ok(seen) = serde_json::from_slice::<Seen>(&entry.value) else { continue };
        if counts(&seen) {
            // Each region has one gateway: the owner's, and at most one adopts.
            regions.entry(replica).or_default().insert(seen.adopted);
        }
    }
    let two = regions.into_iter().filter(|(_, owners)| owners.len() > 1);
    two.map(|(replica, _)| replica.to_owned()).collect()
}

impl Figures {
    pub(super) fn judge(&self, checks: &mut Checks) {
        if self.serving.most > MOST {
            checks.faults.push(format!(
                "the registry showed gateways of two regions that serve {} for {:?}; a lease is {LEASE:?}, and etcd notices its end within {NOTICED:?}",
                self.serving.which, self.serving.most
            ));
        }
        checks.some("reads of the registry's owners", self.samples);
    }

    pub(super) fn table(&self) -> String {
        let mut shown = table(&["a replica of two regions", "times", "longest", "at most"]);
        let lease = format!("{:.1} s", MOST.as_secs_f64());
        for (what, of, most) in [
            ("in the registry, both serve", &self.serving, lease.as_str()),
            ("in the registry, with handing back", &self.listed, "-"),
            ("in the gateways, both serve", &self.gateways, "-"),
        ] {
            let longest = format!("{:.1} s", of.most.as_secs_f64());
            shown.add_row([what, &of.times.to_string(), &longest, most]);
        }
        let lost = self.lost.as_secs_f64();
        format!(
            "{shown}\n   {} samples; a lease is {:.1} s; the registry did not answer for {lost:.1} s",
            self.samples,
            LEASE.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The owner's and an adopter's observation count, unless one of them drains; times add up while
    // a replica has both.
    #[test]
    fn two_regions() {
        let entry = |key: &str, value: &str| Entry {
            key: format!("{PREFIX}{key}"),
            value: value.as_bytes().to_vec(),
        };
        let own = entry("a/eu-gateway", r#"{"state":"up"}"#);
        let adopts = entry("a/us-gateway", r#"{"state":"up","adopted":true}"#);
        let drains = entry("a/us-gateway", r#"{"state":"draining","adopted":true}"#);
        let serving = |entries: &[Entry]| of_two(entries, |seen| seen.state != DRAINING);
        assert!(serving(std::slice::from_ref(&own)).is_empty());
        assert!(serving(&[own.clone(), drains]).is_empty());
        let two = serving(&[own, adopts]);
        assert_eq!(two.iter().collect::<Vec<_>>(), ["a"]);
        let mut longest = Longest::default();
        longest.take(&two, EVERY);
        longest.take(&two, EVERY);
        longest.take(&two, EVERY);
        longest.take(&BTreeSet::new(), EVERY);
        longest.take(&two, EVERY);
        assert_eq!((longest.most, longest.times, &*longest.which), (EVERY * 2, 2, "a"));
    }
}
