//! The registry as one who follows it holds it in memory.
//!
//! Read once and brought up to date by the batches of a watch, it is the same as if it were read
//! anew each time. A record that can't be read, of a later version perhaps, is left out and counted:
//! one such record takes nothing else away.

use std::collections::BTreeMap;

use meridian_wire::registry::{Gateway, Region, Replica, Seen, Wanted};
use serde::de::DeserializeOwned;

use super::{Key, Kind};
use crate::store::{Batch, Entry, Event, Listing, Revision};

/// A record with the revision at which it was last changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept<R> {
    /// The record.
    pub record: R,
    /// When it was last changed: what a guarded change is made against.
    pub at: Revision,
}

/// Everything at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The revision.
    pub revision: Revision,
    /// The regions by name.
    pub regions: BTreeMap<String, Kept<Region>>,
    /// The replicas by name, removed ones included.
    pub replicas: BTreeMap<String, Kept<Replica>>,
    /// The gateways that live, by name.
    pub gateways: BTreeMap<String, Kept<Gateway>>,
    /// Replicas as gateways see them, by `REPLICA/GATEWAY`.
    pub seen: BTreeMap<String, Kept<Seen>>,
    /// Keys whose records can't be read.
    pub unreadable: BTreeMap<String, String>,
}

impl View {
    /// The view that a listing of the prefix "" shows.
    #[must_use]
    pub fn of(listing: Listing) -> View {
        let mut view = View { revision: listing.revision, ..View::default() };
        for entry in &listing.entries {
            view.put(entry);
        }
        view
    }

    /// Brings it up to date. Batches come in order; one that it knows already changes nothing.
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
            Kind::Seen => drop(self.seen.remove(key.name())),
        }
    }
}

/// An unreadable record takes the one before it away too: what it said holds no longer.
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
