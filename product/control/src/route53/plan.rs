//! The changes that make a zone as the fleet needs it.
//!
//! Every step leaves an answer for each region that had one and has living gateways. Repeated after any
//! of its steps, a plan continues from there: it depends on the fleet and the zone only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::batch::split;
use super::{Body, Change, Key, Kind, Names, Probe, Zone};

/// A region of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    /// Operators do not drain it.
    pub(crate) open: bool,
    /// Addresses of its living gateways.
    pub(crate) living: BTreeSet<IpAddr>,
    /// Addresses of those that shut down in order.
    pub(crate) leaving: BTreeSet<IpAddr>,
}

/// The regions by name.
pub(crate) type Fleet = BTreeMap<String, Region>;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Changes of records that are possible now, in batches that are made one after the other.
    pub(crate) batches: Vec<Vec<Change>>,
    /// Health checks to create. Their records follow in the next plan.
    pub(crate) missing: Vec<Probe>,
    /// Own health checks that no record uses, neither now nor after the changes.
    pub(crate) unused: Vec<String>,
    /// Names and types that are left alone, because others have records there.
    pub(crate) conflicts: Vec<(String, Kind)>,
}

/// Compares the fleet with the zone.
pub(crate) fn plan(names: &Names, fleet: &Fleet, zone: &Zone) -> Plan {
    // The first of several with the same settings.
    let checks = zone.checks.iter().rev().filter_map(|(id, probe)| Some((probe.as_ref()?, id)));
    let (checks, wanted) = (checks.collect(), BTreeMap::new());
    let mut draft = Draft { names, fleet, zone, checks, wanted, plan: Plan::default() };
    for kind in Kind::ALL {
        draft.kind(kind);
    }
    draft.finish()
}

struct Draft<'a> {
    names: &'a Names,
    fleet: &'a Fleet,
    zone: &'a Zone,
    /// The own health checks by their settings.
    checks: BTreeMap<&'a Probe, &'a String>,
    /// The records that the zone should have now.
    wanted: BTreeMap<Key, Body>,
    plan: Plan,
}

impl Draft<'_> {
    fn kind(&mut self, kind: Kind) {
        let (names, zone) = (self.names, self.zone);
        let name = names.config.name.clone();
        if self.conflict(name, kind) {
            self.keep(|key| key.kind == kind);
            return;
        }
        let dark = self.is_dark();
        for (region, aws) in &names.config.regions {
            let (target, alias) = (names.region(region), names.alias(region, kind));
            if self.conflict(target.clone(), kind) {
                self.keep(|key| *key == alias || (key.kind == kind && key.name == target));
                continue;
            }
            let found = self.addresses(region, kind, dark);
            let open = self.fleet.get(region).is_none_or(|region| region.open);
            if !found.is_empty() && (open || (dark && zone.records.contains_key(&alias))) {
                self.wanted.insert(alias, Body::Region { aws: aws.clone(), target });
            }
            self.wanted.extend(found);
        }
        if dark {
            let (listed, fleet) = (&names.config.regions, self.fleet);
            let lives = |region: &str| fleet.get(region).is_some_and(|r| !r.living.is_empty());
            self.keep_own(kind, |region| !listed.contains_key(region) || !lives(region));
        } else if self.has_answer(kind, &self.zone.records) && self.must_wait(kind) {
            self.keep_own(kind, |_| true);
        }
        self.one_in_each(kind);
    }

    /// Route 53 has one latency record in each of its regions. One that leads to an address comes before
    /// others, and then the one that the settings have there before one that was kept.
    fn one_in_each(&mut self, kind: Kind) {
        let answered: BTreeSet<&String> = self.addressed(kind).collect();
        let mut best: BTreeMap<&String, ((bool, bool), &Key)> = BTreeMap::new();
        let mut aliases = Vec::new();
        for (key, body) in self.wanted.iter().filter(|(key, _)| key.kind == kind) {
            let Body::Region { aws, target } = body else { continue };
            aliases.push(key);
            let region = self.names.region_in(key);
            let set = region.and_then(|region| self.names.config.regions.get(region)) == Some(aws);
            let rank = (answered.contains(target), set);
            let first = best.entry(aws).or_insert((rank, key));
            if rank > first.0 {
                *first = (rank, key);
            }
        }
        let (stays, all) = (best.len(), aliases.len());
        let stay: BTreeSet<&Key> = best.values().map(|(_, key)| *key).collect();
        let go: Vec<Key> = aliases.into_iter().filter(|key| !stay.contains(key)).cloned().collect();
        assert_eq!(stays + go.len(), all, "one record stays in each of Route 53's regions");
        go.iter().for_each(|key| drop(self.wanted.remove(key)));
    }

    /// The names of regions that have addresses among the wanted records.
    fn addressed(&self, kind: Kind) -> impl Iterator<Item = &String> {
        let of_kind = self.wanted.iter().filter(move |(key, _)| key.kind == kind);
        of_kind.filter(|(_, body)| matches!(body, Body::Gateway { .. })).map(|(key, _)| &key.name)
    }

    /// Without what is there the name would have no answer, and gateways whose health checks are not
    /// there yet could give one.
    fn must_wait(&self, kind: Kind) -> bool {
        let could = |name: &String| {
            let is_free = !self.zone.foreign.contains(&(self.names.region(name), kind));
            let region = self.fleet.get(name).filter(|region| region.open && is_free);
            region.is_some_and(|region| region.living.iter().any(|ip| Kind::of(ip) == kind))
        };
        self.names.config.regions.keys().any(could) && !self.has_answer(kind, &self.wanted)
    }

    /// Whether these records give the name an address.
    fn has_answer(&self, kind: Kind, records: &BTreeMap<Key, Body>) -> bool {
        let mut regions = records.iter().filter_map(|(key, body)| match body {
            Body::Region { target, .. } if key.kind == kind => Some(target),
            _ => None,
        });
        let is_there = |target: &String| {
            records.iter().any(|(key, body)| {
                key.name == *target && key.kind == kind && matches!(body, Body::Gateway { .. })
            })
        };
        regions.any(is_there)
    }

    /// Leaves the own records of some regions that are there, also of those that are not listed any more.
    fn keep_own(&mut self, kind: Kind, of: impl Fn(&str) -> bool) {
        // Names of regions that have addresses now, and so no need of earlier ones.
        let served: BTreeSet<String> = self.addressed(kind).cloned().collect();
        for (key, body) in self.zone.records.iter().filter(|(key, _)| key.kind == kind) {
            if !served.contains(&key.name) && self.names.region_in(key).is_none_or(&of) {
                self.wanted.entry(key.clone()).or_insert_with(|| body.clone());
            }
        }
    }

    /// No open region has a living gateway. Then nothing is taken out: without records the name would
    /// not exist, and resolvers would keep that for a quarter of an hour.
    fn is_dark(&self) -> bool {
        let mut listed = self.names.config.regions.keys().filter_map(|name| self.fleet.get(name));
        !listed.any(|region| region.open && !region.living.is_empty())
    }

    /// Whether others have records there.
    fn conflict(&mut self, name: String, kind: Kind) -> bool {
        let place = (name, kind);
        let is_there = self.zone.foreign.contains(&place);
        if is_there {
            self.plan.conflicts.push(place);
        }
        is_there
    }

    /// Leaves these records as they are.
    fn keep(&mut self, which: impl Fn(&Key) -> bool) {
        let kept = self.zone.records.iter().filter(|(key, _)| which(key));
        self.wanted.extend(kept.map(|(key, body)| (key.clone(), body.clone())));
    }

    /// The records with a region's addresses.
    fn addresses(&mut self, region: &str, kind: Kind, dark: bool) -> BTreeMap<Key, Body> {
        let target = self.names.region(region);
        let there = self.zone.records.iter();
        let there = there.filter(|(key, _)| key.kind == kind && key.name == target);
        let there: BTreeMap<Key, Body> = there.map(|(k, b)| (k.clone(), b.clone())).collect();
        let (living, leaving) = match self.fleet.get(region) {
            Some(known) => (known.living.clone(), known.leaving.clone()),
            None => Default::default(),
        };
        if living.is_empty() {
            // Perhaps only the control plane has lost them; the health checks decide. Gateways that say
            // that they leave are an exception.
            let goes = |key: &Key| Names::address_in(key).is_some_and(|ip| leaving.contains(&ip));
            return there.into_iter().filter(|(key, _)| dark || !goes(key)).collect();
        }
        let of_kind: Vec<IpAddr> = living.into_iter().filter(|ip| Kind::of(ip) == kind).collect();
        let mut found = BTreeMap::new();
        for &address in &of_kind {
            let key = self.names.address(region, address);
            let probe = self.names.probe(address);
            let before = there.get(&key);
            match self.check_of(before, &probe) {
                Some(check) => drop(found.insert(key, self.names.gateway(address, check))),
                None => {
                    self.plan.missing.push(probe);
                    found.extend(before.map(|body| (key, body.clone())));
                }
            }
        }
        // Until the first one has its health check, the earlier ones stay.
        let answers = found.values().any(|body| matches!(body, Body::Gateway { .. }));
        if answers || of_kind.is_empty() { found } else { there }
    }

    /// The health check with these settings: preferably the one that the record already uses.
    fn check_of(&self, record: Option<&Body>, probe: &Probe) -> Option<String> {
        let fits =
            |id: &&String| self.zone.checks.get(*id).is_some_and(|p| p.as_ref() == Some(probe));
        let used = match record {
            Some(Body::Gateway { check, .. }) => Some(check).filter(fits),
            _ => None,
        };
        used.or_else(|| self.checks.get(probe).copied()).cloned()
    }

    /// First the new addresses, then the regions, which need them, and last the old addresses. Regions
    /// that go or move come before others in their batch: Route 53 makes changes in order, and has one
    /// record for each of its regions at any moment.
    fn finish(mut self) -> Plan {
        let (mut new, mut regions, mut old) = (Vec::new(), Vec::new(), Vec::new());
        let mut gone = Vec::new();
        for (key, body) in &self.wanted {
            let before = self.zone.records.get(key);
            if before == Some(body) {
                continue;
            }
            if before.is_some() && matches!(body, Body::Region { .. }) {
                gone.push(Change::Delete(key.clone()));
            }
            let upsert = Change::Upsert(key.clone(), body.clone());
            if matches!(body, Body::Region { .. }) { &mut regions } else { &mut new }.push(upsert);
        }
        for key in self.zone.records.keys().filter(|key| !self.wanted.contains_key(key)) {
            let of_regions = key.name == self.names.config.name;
            if of_regions { &mut gone } else { &mut old }.push(Change::Delete(key.clone()));
        }
        let regions = [gone, regions].concat();
        self.plan.batches = [new, regions, old].into_iter().flat_map(split).collect();
        let mut used = self.zone.used();
        used.extend(self.wanted.values().filter_map(|body| match body {
            Body::Gateway { check, .. } => Some(check.as_str()),
            Body::Region { .. } | Body::Other => None,
        }));
        let unused = self.zone.checks.keys().filter(|id| !used.contains(id.as_str()));
        self.plan.unused = unused.cloned().collect();
        self.plan
    }
}
