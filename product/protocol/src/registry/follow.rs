//! A follower's copy of the registry, and the updates to it.
//!
//! A follower reads a [`Snapshot`] once and then applies [`Update`]s in the order of their
//! revisions. Its state then equals a fresh snapshot. Each follower computes from the snapshot
//! alone, with the same function, which gateway serves which replica.
//!
//! The control plane leaves out records that it can't read, for example of a later version.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::assign::{Home, Membership};
use serde::{Deserialize, Serialize};

use super::{Gateway, Region, Replica, distances};

/// The whole registry at one revision: `GET /admin/registry`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Identifies the store: revisions of different stores are not comparable.
    pub store: String,
    /// The revision.
    pub revision: u64,
    /// The regions.
    pub regions: BTreeMap<String, Region>,
    /// The replicas, including removed ones.
    pub replicas: BTreeMap<String, Replica>,
    /// The gateways that are alive.
    pub gateways: BTreeMap<String, Gateway>,
}

/// The changes of one revision: an event of `GET /admin/watch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The revision.
    pub revision: u64,
    /// The changed records.
    pub changes: Vec<Change>,
}

/// One record in its new state; none if it was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Change {
    /// A region.
    Region {
        /// Its name.
        name: String,
        /// Its record.
        record: Option<Region>,
    },
    /// A replica.
    Replica {
        /// Its name.
        name: String,
        /// Its record.
        record: Option<Replica>,
    },
    /// A gateway.
    Gateway {
        /// Its name.
        name: String,
        /// Its record.
        record: Option<Gateway>,
    },
}

/// The first event of a watch, and the one sent while nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Identifies the store.
    pub store: String,
    /// Everything up to this revision has been sent.
    pub revision: u64,
}

impl Snapshot {
    /// Applies an update. One that is already applied changes nothing.
    pub fn apply(&mut self, update: Update) {
        if update.revision <= self.revision {
            return;
        }
        self.revision = update.revision;
        for change in update.changes {
            match change {
                Change::Region { name, record } => put(&mut self.regions, name, record),
                Change::Replica { name, record } => put(&mut self.replicas, name, record),
                Change::Gateway { name, record } => put(&mut self.gateways, name, record),
            }
        }
    }

    /// The members, as input to the assignment.
    #[must_use]
    pub fn membership(&self) -> Membership<String, String, String> {
        let there = self.replicas.iter().filter(|(_, one)| one.is_there());
        let home = |one: &Replica| Home {
            region: one.region.clone(),
            adopters: self.adopters(&one.region),
        };
        Membership {
            rtts: distances(&self.regions, self.gateways.values()),
            gateways: self.gateways.iter().map(|(n, g)| (n.clone(), g.region.clone())).collect(),
            replicas: there.map(|(name, one)| (name.clone(), home(one))).collect(),
        }
    }

    fn adopters(&self, region: &str) -> Option<BTreeSet<String>> {
        let adopters = self.regions.get(region)?.adopters.as_ref()?;
        Some(adopters.iter().cloned().collect())
    }
}

fn put<R>(records: &mut BTreeMap<String, R>, name: String, record: Option<R>) {
    match record {
        Some(record) => drop(records.insert(name, record)),
        None => drop(records.remove(&name)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meridian_base::assign::{Serving, assign};

    use super::*;

    fn snapshot(json: serde_json::Value) -> Snapshot {
        serde_json::from_value(json).unwrap()
    }

    fn world() -> Snapshot {
        snapshot(serde_json::json!({
            "store": "a", "revision": 7,
            "regions": {
                "us": {"rtt_ms": {"eu": 92.0}},
                "eu": {},
                "asia": {"rtt_ms": {"us": 167.0, "eu": 230.0}}
            },
            "replicas": {
                "a": {"region": "eu", "spec": {"url": "http://10.0.0.1:8000"}},
                "b": {"region": "eu", "spec": {"url": "http://10.0.0.2:8000"}, "wanted": "removed"}
            },
            "gateways": {
                "asia-1": {"region": "asia", "address": "x", "version": "1"},
                "us-1": {"region": "us", "address": "x", "version": "1"}
            }
        }))
    }

    fn server(of: &Snapshot) -> Serving<String> {
        assign(&of.membership()).remove("a").unwrap()
    }

    // The nearest gateway adopts, if the region allows it: by measured round trips, else by those
    // that operators wrote. No gateway serves a removed replica.
    #[test]
    fn membership_follows_the_records() {
        let mut world = world();
        assert_eq!(assign(&world.membership()).len(), 1);
        let adopted = |by: &str, ms| Serving::Adopted {
            by: by.to_owned(),
            rtt: Some(Duration::from_millis(ms)),
        };
        assert_eq!(server(&world), adopted("us-1", 92));
        let measured = BTreeMap::from([("eu".to_owned(), 40.0)]);
        world.gateways.get_mut("asia-1").unwrap().rtt_ms = measured;
        assert_eq!(server(&world), adopted("asia-1", 40));
        world.regions.get_mut("eu").unwrap().adopters = Some(vec!["us".to_owned()]);
        assert_eq!(server(&world), adopted("us-1", 92));
        world.regions.get_mut("eu").unwrap().adopters = Some(Vec::new());
        assert_eq!(server(&world), Serving::NoGateway);
    }

    // An update adds, changes and removes; one that is known, or older, does nothing.
    #[test]
    fn updates_are_applied_once() {
        let mut world = world();
        let gone = Change::Gateway { name: "us-1".into(), record: None };
        let update = Update { revision: 8, changes: vec![gone] };
        let text = serde_json::to_string(&update).unwrap();
        assert_eq!(
            text,
            r#"{"revision":8,"changes":[{"kind":"gateway","name":"us-1","record":null}]}"#
        );
        world.apply(serde_json::from_str(&text).unwrap());
        assert_eq!((world.revision, world.gateways.len()), (8, 1));
        world.apply(Update {
            revision: 8,
            changes: vec![Change::Replica { name: "a".into(), record: None }],
        });
        assert_eq!(world.replicas.len(), 2);
    }
}
