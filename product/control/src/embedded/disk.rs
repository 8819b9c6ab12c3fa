//! The file: redb's tables, how to open it, and the meaning of its errors.
//!
//! redb guarantees the essentials: a commit that returned survives a crash, and one that did not
//! return is kept either completely or not at all. It does not check a properly closed file for
//! damage unless asked to, and on some damaged files it panics during the check. Opening therefore
//! always checks the whole file, and treats a panic as a damaged file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{Database, DatabaseError, StorageBackend, StorageError, TableDefinition};

use crate::Error;
use crate::store::{Entry, LeaseId, Revision};

/// An entry: created, modified, version, lease (0: none), value.
type DiskRow = (u64, u64, u64, u64, &'static [u8]);
/// A change: key, created, version (0: deleted), lease, value.
type Past = (&'static str, u64, u64, u64, &'static [u8]);

pub(super) const ENTRIES: TableDefinition<&str, DiskRow> = TableDefinition::new("entries");
/// By revision and index in the transaction.
pub(super) const HISTORY: TableDefinition<(u64, u32), Past> = TableDefinition::new("history");
/// Duration of a lease in seconds.
pub(super) const LEASES: TableDefinition<u64, u64> = TableDefinition::new("leases");
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// The keys of [`META`].
pub(super) mod meta {
    pub(in crate::embedded) const FORMAT: &str = "format";
    pub(in crate::embedded) const HEAD: &str = "head";
    pub(in crate::embedded) const COMPACTED: &str = "compacted";
    pub(in crate::embedded) const LAST_LEASE: &str = "last_lease";
}

/// Version of the tables' layout.
pub(super) const FORMAT: u64 = 1;

/// Memory for pages: the whole of a usual registry.
const CACHE: usize = 16 << 20;

/// Opens a file, or creates it so that it survives a crash of the machine.
pub(super) fn open_file(path: &Path) -> Result<Database, Error> {
    let name = path.display().to_string();
    let new = !path.exists();
    if new {
        // Other users of the machine do not read the registry.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        made.map_err(|error| Error::Failed(format!("{name}: {error}")))?;
    }
    let database = checked(&name, || builder().create(path))?;
    if new {
        let parent = path.parent().filter(|one| !one.as_os_str().is_empty());
        let folder = File::open(parent.unwrap_or(Path::new(".")));
        folder.and_then(|folder| folder.sync_all()).map_err(|error| {
            Error::Failed(format!("the folder of {name} can't be synced: {error}"))
        })?;
    }
    Ok(database)
}

/// The same on any storage.
pub(super) fn open_on(name: &str, backend: impl StorageBackend) -> Result<Database, Error> {
    checked(name, move || builder().create_with_backend(backend))
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

fn checked(
    name: &str,
    open: impl FnOnce() -> Result<Database, DatabaseError>,
) -> Result<Database, Error> {
    let damaged = |why: String| Error::Damaged { path: name.to_owned(), why };
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut database = open()?;
        database.check_integrity()?;
        Ok(database)
    }));
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(Error::Locked(name.to_owned())),
        Ok(Err(DatabaseError::Storage(StorageError::Io(error)))) => {
            Err(Error::Failed(format!("{name}: {error}")))
        }
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(_) => Err(damaged("its pages contradict each other".to_owned())),
    }
}

/// For `map_err`: after any of these errors the outcome is unknown.
pub(super) fn failed(error: impl Into<redb::Error>) -> Error {
    Error::Failed(error.into().to_string())
}

pub(super) fn lease(raw: u64) -> Option<LeaseId> {
    (raw != 0).then_some(LeaseId(raw))
}

pub(super) fn raw(lease: Option<LeaseId>) -> u64 {
    lease.map_or(0, |id| id.0)
}

pub(super) fn entry(key: &str, row: (u64, u64, u64, u64, &[u8])) -> Entry {
    let (created, modified, version, held, value) = row;
    Entry {
        key: key.to_owned(),
        value: value.to_vec(),
        created: Revision(created),
        modified: Revision(modified),
        version,
        lease: lease(held),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    // Defect store-mode: only its owner can read a new store, whatever the mask of the process.
    #[test]
    fn only_the_owner_reads_it() {
        let path = std::env::temp_dir().join(format!("meridian-mode-{}.redb", std::process::id()));
        let _ = std::fs::remove_file(&path);
        drop(open_file(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(open_file(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
