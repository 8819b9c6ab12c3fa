//! Moves a registry from one store to another.
//!
//! Only desired records move. Gateways that come to the new store observe the rest again, and until then
//! they keep the replicas that they serve.

use std::collections::BTreeMap;

use meridian_protocol::registry::{Export, Imported};
use serde::Serialize;

use super::living::AT_ONCE;
use super::{Kept, Key, Refused, Registry, good_region, good_replica, json, region_name};
use crate::store::{Change, Committed, Guard, Store, Txn};

/// Version of the form.
const VERSION: u32 = 1;
/// Names in an error.
const MOST_NAMED: usize = 10;

/// A change with the guard that the record is still as it was read.
type Write = (Guard, Change);

impl<S: Store> Registry<S> {
    /// Everything that operators wrote, from the store called `store`.
    ///
    /// # Errors
    /// If the store fails, or a record can't be read.
    pub async fn export(&self, store: String) -> Result<Export, Refused> {
        let view = self.view().await?;
        let unread = view.unreadable.iter().find(|(key, _)| key.starts_with("desired/"));
        if let Some((key, why)) = unread {
            return Err(Refused::Record(format!(
                "{key} can't be read: {why}; use a newer version, or write it again"
            )));
        }
        Ok(Export {
            version: VERSION,
            store,
            revision: view.revision.0,
            regions: view.regions.into_iter().map(|(name, kept)| (name, kept.record)).collect(),
            replicas: view.replicas.into_iter().map(|(name, kept)| (name, kept.record)).collect(),
        })
    }

    /// Writes the records of an export. Records that the export does not have stay. A record that is
    /// different in the store is changed if `replace`; otherwise nothing is written.
    ///
    /// # Errors
    /// If a record is invalid, differs, or another client changes one meanwhile: then a part may have
    /// been written, and the import can be repeated.
    pub async fn import(&self, export: &Export, replace: bool) -> Result<Imported, Refused> {
        check(export)?;
        let view = self.view().await?;
        let (mut writes, mut differ) = (Vec::new(), Vec::new());
        let mut done = plan(&export.regions, &view.regions, Key::region, &mut writes, &mut differ)?;
        let more = plan(&export.replicas, &view.replicas, Key::replica, &mut writes, &mut differ)?;
        done.added += more.added;
        done.same += more.same;
        done.changed = differ.len();
        let of_writes = done.added + done.changed;
        assert_eq!(writes.len(), of_writes, "an import writes what it adds and changes");
        if !replace && !differ.is_empty() {
            let named = differ.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
            return Err(Refused::Record(format!(
                "{} records are different here: {named}; nothing was written; replace them with --replace",
                differ.len()
            )));
        }
        for some in writes.chunks(AT_ONCE) {
            let (guards, changes) = some.iter().cloned().unzip();
            if let Committed::No(_) = self.store.commit(Txn { guards, changes }).await? {
                return Err(Refused::Record(
                    "records were changed during the import; repeat it".to_owned(),
                ));
            }
        }
        Ok(done)
    }
}

/// The writes for records of one kind, and the keys of those that differ.
fn plan<R: PartialEq + Serialize>(
    wanted: &BTreeMap<String, R>,
    there: &BTreeMap<String, Kept<R>>,
    key: fn(&str) -> Result<Key, Refused>,
    writes: &mut Vec<Write>,
    differ: &mut Vec<String>,
) -> Result<Imported, Refused> {
    let mut done = Imported::default();
    for (name, record) in wanted {
        let text = key(name)?.to_string();
        let guard = match there.get(name) {
            Some(kept) if kept.record == *record => {
                done.same += 1;
                continue;
            }
            Some(kept) => {
                differ.push(text.clone());
                Guard::At(text.clone(), kept.at)
            }
            None => {
                done.added += 1;
                Guard::Absent(text.clone())
            }
        };
        writes.push((guard, Change::put(text, json(record))));
    }
    Ok(done)
}

fn check(export: &Export) -> Result<(), Refused> {
    if export.version != VERSION {
        return Err(Refused::Record(format!(
            "version: {} is unknown; use an export of this version, {VERSION}",
            export.version
        )));
    }
    for (name, region) in &export.regions {
        region_name(name)
            .and_then(|()| good_region(region))
            .map_err(|bad| of("region", name, bad))?;
    }
    for (name, replica) in &export.replicas {
        let good = Key::replica(name).and_then(|_| good_replica(replica));
        good.map_err(|bad| of("replica", name, bad))?;
    }
    Ok(())
}

fn of(what: &str, name: &str, refused: Refused) -> Refused {
    Refused::Record(format!("{what} `{name}`: {refused}"))
}
