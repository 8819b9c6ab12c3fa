//! A hosted zone with the rules of Route 53.

use super::super::Probe;
use super::super::zone::Zone;
use super::*;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    /// The own records; those of others have an identifier without an owner.
    pub(super) records: BTreeMap<Key, Body>,
    pub(super) checks: BTreeMap<String, Option<Probe>>,
    made: u64,
}

/// The health check of a record.
pub(super) fn check_of(body: &Body) -> Option<&String> {
    match body {
        Body::Gateway { check, .. } => Some(check),
        Body::Region { .. } | Body::Other => None,
    }
}

impl Model {
    /// What the process reads.
    pub(super) fn zone(&self, names: &Names) -> Zone {
        let own = self.records.iter().filter(|(key, _)| names.owns(&key.name, &key.id));
        let foreign = self.of_others().into_iter().map(|key| (key.name, key.kind));
        Zone {
            records: own.map(|(key, body)| (key.clone(), body.clone())).collect(),
            foreign: foreign.collect(),
            checks: self.checks.clone(),
            used_by_others: BTreeSet::new(),
        }
    }

    pub(super) fn foreign(&mut self, name: &str, kind: Kind) {
        let key = Key { name: name.to_owned(), kind, id: "other".to_owned() };
        self.records.insert(key, Body::Other);
    }

    pub(super) fn of_others(&self) -> BTreeSet<Key> {
        self.records.keys().filter(|key| key.id == "other").cloned().collect()
    }

    pub(super) fn settle(&mut self, names: &Names, fleet: &Fleet) {
        while self.step(names, fleet) {}
    }

    /// Plans, and does the first thing: as if the process was killed after each request.
    pub(super) fn step(&mut self, names: &Names, fleet: &Fleet) -> bool {
        let plan = plan(names, fleet, &self.zone(names));
        if let Some(batch) = plan.batches.first() {
            self.change(batch);
        } else if !plan.missing.is_empty() {
            // Twice what others create in the meantime would be: only some of them.
            for probe in plan.missing.iter().take(500) {
                self.made += 1;
                self.checks.insert(format!("check-{:06}", self.made), Some(probe.clone()));
            }
        } else if let Some(id) = plan.unused.first() {
            assert!(!self.records.values().any(|body| check_of(body) == Some(id)), "{id} is used");
            self.checks.remove(id);
        } else {
            return false;
        }
        true
    }

    /// Makes a batch, which must be one that Route 53 accepts.
    fn change(&mut self, batch: &[Change]) {
        let (mut records, mut characters) = (0, 0);
        for change in batch {
            let (key, times, length) = match change {
                Change::Upsert(key, Body::Gateway { address, .. }) => {
                    (key, 2, address.to_string().len())
                }
                Change::Upsert(key, _) => (key, 2, 0),
                Change::Delete(key) => (key, 1, 39),
            };
            assert_ne!(key.id, "other", "a record of another owner");
            (records, characters) = (records + times, characters + times * length);
            match change {
                Change::Upsert(key, body) => {
                    assert_ne!(*body, Body::Other);
                    if let Some(check) = check_of(body) {
                        assert!(self.checks.contains_key(check), "{check} is not there");
                    }
                    self.records.insert(key.clone(), body.clone());
                    self.at_most_one_of(key.kind, body);
                }
                Change::Delete(key) => assert!(self.records.remove(key).is_some(), "{key:?}"),
            }
        }
        assert!(!batch.is_empty() && records <= 1000 && characters <= 32_000, "too large a batch");
        for change in batch {
            if let Change::Upsert(key, Body::Region { target, .. }) = change {
                let is_target = |other: &Key| other.name == *target && other.kind == key.kind;
                assert!(self.records.keys().any(is_target), "{key:?} has no target");
            }
        }
    }

    /// Also within a batch there is one latency record in each region of AWS.
    fn at_most_one_of(&self, kind: Kind, body: &Body) {
        let Body::Region { aws, .. } = body else { return };
        let is_there = |(other, body): &(&Key, &Body)| {
            other.kind == kind && matches!(body, Body::Region { aws: other, .. } if other == aws)
        };
        assert_eq!(self.records.iter().filter(is_there).count(), 1, "two latency records in {aws}");
    }

    /// What other programs do. Aliases without a target and unknown health checks may remain.
    pub(super) fn harm(&mut self, harm: &Harm) {
        let own = self.records.keys().filter(|key| key.id != "other");
        let own: Vec<Key> = own.cloned().collect();
        let at = |n: usize| own.get(n % own.len().max(1)).cloned();
        match *harm {
            Harm::LosesRecord(n) => drop(at(n).map(|key| self.records.remove(&key))),
            Harm::ChangesRecord(n) => drop(at(n).map(|key| self.records.insert(key, Body::Other))),
            Harm::LosesCheck(n) => {
                let all = self.checks.len().max(1);
                let id = self.checks.keys().nth(n % all).cloned();
                id.map(|id| self.checks.remove(&id));
            }
            Harm::Foreign(n, v4) => {
                let name = ["", "eu.", "us.", "uk.", "de."][n].to_owned() + "llm.example.org";
                self.foreign(&name, if v4 { Kind::A } else { Kind::Aaaa });
            }
        }
    }

    /// The addresses of a region's own name.
    pub(super) fn answers(&self, names: &Names, region: &str, kind: Kind) -> BTreeSet<IpAddr> {
        let name = names.region(region);
        let there = self.records.iter().filter(|(key, _)| key.name == name && key.kind == kind);
        let address = |(_, body): (_, &Body)| match body {
            Body::Gateway { address, .. } => Some(*address),
            Body::Region { .. } | Body::Other => None,
        };
        there.filter_map(address).collect()
    }

    pub(super) fn has_alias(&self, names: &Names, region: &str, kind: Kind) -> bool {
        self.records.contains_key(&names.alias(region, kind))
    }

    /// Regions to which the name leads and that have an address, by type.
    pub(super) fn answering(&self) -> BTreeSet<(String, Kind)> {
        let aliases = self.records.iter().filter_map(|(key, body)| match body {
            Body::Region { target, .. } => Some((target.clone(), key.kind)),
            Body::Gateway { .. } | Body::Other => None,
        });
        let has_address = |(name, kind): &(String, Kind)| {
            self.records.iter().any(|(key, body)| {
                key.name == *name && key.kind == *kind && matches!(body, Body::Gateway { .. })
            })
        };
        aliases.filter(has_address).collect()
    }
}
