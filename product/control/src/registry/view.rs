//! A follower's copy of the registry in memory.
//!
//! Read once and updated with the batches of a watch, it equals a fresh copy. A record that can't
//! be read, perhaps of a later version, is left out and counted; it affects no other record.

use std::collections::BTreeMap;

use meridian_protocol::registry::{Gateway, Region, Replica, Report, Seen, Wanted};
use serde::de::DeserializeOwned;

use super::{Key, Kind};
use crate::store::{Batch, Entry, Event, Listing, Revision};

/// A record with the revision at which it was last changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept<R> {
    /// The record.
    pub record: R,
    /// Revision of its last change, against which a guarded change is made.
    pub at: Revision,
}

/// The whole registry at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The revision.
    pub revision: Revision,
    /// The regions by name.
    pub regions: BTreeMap<String, Kept<Region>>,
    /// The replicas by name, including removed ones.
    pub replicas: BTreeMap<String, Kept<Replica>>,
    /// The gateways that are alive, by name.
    pub gateways: BTreeMap<String, Kept<Gateway>>,
    /// The gateways' newest reports, in a store that control planes share.
    pub loads: BTreeMap<String, Kept<Report>>,
    /// Replicas as observed by gateways, by `REPLICA/GATEWAY`.
    pub seen: BTreeMap<String, Kept<Seen>>,
    /// Keys whose records can't be read.
    pub unreadable: BTreeMap<String, String>,
}

impl View {
    /// The view in a listing of the prefix "".
    #[must_use]
    pub fn of(listing: Listing) -> View {
        let mut view = View { revision: listing.revision, ..View::default() };
        for entry in &listing.entries {
            view.put(entry);
        }
        view
    }

    /// Applies a batch. Batches come in order; one that is already applied changes nothing.
    pub fn apply(&mut self, batch: &Batch) {
        if batch.revision <= self.revision {
            return;
        }
        self.revision = batch.revision;
        for event in &batch.events {
            match event {
                Event::Put(entry) => self.put(entry),
                Event::Deleted(key) => self.remove(key),
            }
        }
    }

    /// The replicas of a region that should serve.
    pub fn up(&self, region: &str) -> impl Iterator<Item = (&str, &Replica)> {
        let all = self.replicas.iter().map(|(name, kept)| (name.as_str(), &kept.record));
        all.filter(move |(_, one)| one.region == region && one.wanted == Wanted::Up)
    }

    fn put(&mut self, entry: &Entry) {
        let Some(key) = Key::parse(&entry.key) else { return };
        let read = match key.kind() {
            Kind::Region => keep(&mut self.regions, &key, entry),
            Kind::Replica => keep(&mut self.replicas, &key, entry),
            Kind::Gateway => keep(&mut self.gateways, &key, entry),
            Kind::Load => keep(&mut self.loads, &key, entry),
            Kind::Seen => keep(&mut self.seen, &key, entry),
        };
        match read {
            Ok(()) => self.unreadable.remove(&entry.key),
            Err(error) => self.unreadable.insert(entry.key.clone(), error.to_string()),
        };
    }

    fn remove(&mut self, text: &str) {
        self.unreadable.remove(text);
        let Some(key) = Key::parse(text) else { return };
        match key.kind() {
            Kind::Region => drop(self.regions.remove(key.name())),
            Kind::Replica => drop(self.replicas.remove(key.name())),
            Kind::Gateway => drop(self.gateways.remove(key.name())),
            Kind::Load => drop(self.loads.remove(key.name())),
            Kind::Seen => drop(self.seen.remove(key.name())),
        }
    }
}

/// An unreadable record also removes its predecessor, which is outdated.
fn keep<R: DeserializeOwned>(
    records: &mut BTreeMap<String, Kept<R>>,
    key: &Key,
    entry: &Entry,
) -> Result<(), serde_json::Error> {
    records.remove(key.name());
    let record = serde_json::from_slice(&entry.value)?;
    records.insert(key.name().to_owned(), Kept { record, at: entry.modified });
    Ok(())
}
