//! Reads the values that are kept in memory from the file, and creates the tables of a new one.
//!
//! A file whose values contradict each other is refused here, so that what follows may rely on them.

use meridian_base::{Duration, Time};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableError,
};

use super::Core;
use crate::Error;
use crate::embedded::disk::{self, ENTRIES, FORMAT, HISTORY, LEASES, META, failed, meta};
use crate::embedded::leases::Leases;
use crate::limits::Limits;
use crate::store::{LeaseId, Revision};

impl Core {
    pub(super) fn load(
        name: &str,
        database: Database,
        limits: Limits,
        now: Time,
    ) -> Result<Core, Error> {
        let read = database.begin_read().map_err(failed)?;
        match read.open_table(META) {
            Ok(_) => {}
            Err(TableError::TableDoesNotExist(_)) => create_tables(&database)?,
            Err(error) => return Err(failed(error)),
        }
        drop(read);
        let mut core = Core {
            database,
            limits,
            head: Revision(0),
            compacted: Revision(0),
            last_lease: 0,
            keys: 0,
            leases: Leases::default(),
            broken: None,
        };
        core.load_values(name, now)?;
        Ok(core)
    }

    /// Loads the values kept in memory.
    fn load_values(&mut self, name: &str, now: Time) -> Result<(), Error> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(META).map_err(failed)?;
        let number = |key| {
            let found = table.get(key).map_err(failed)?;
            let why = format!("it has no {key}");
            let damaged = Error::Damaged { path: name.to_owned(), why };
            found.map(|guard| guard.value()).ok_or(damaged)
        };
        let format = number(meta::FORMAT)?;
        if format != FORMAT {
            return Err(Error::Format { path: name.to_owned(), format, known: FORMAT });
        }
        self.head = Revision(number(meta::HEAD)?);
        self.compacted = Revision(number(meta::COMPACTED)?);
        self.last_lease = number(meta::LAST_LEASE)?;
        self.check_numbers(name, &read)?;
        for row in read.open_table(LEASES).map_err(failed)?.iter().map_err(failed)? {
            let (id, ttl) = row.map_err(failed)?;
            self.leases.begin(now, LeaseId(id.value()), Duration::from_secs(ttl.value()));
        }
        let entries = read.open_table(ENTRIES).map_err(failed)?;
        for row in entries.iter().map_err(failed)? {
            let (key, row) = row.map_err(failed)?;
            let lease = disk::lease(row.value().3);
            if let Some(id) = lease.filter(|id| !self.leases.has(*id)) {
                let why = format!("`{}` has lease {id}, which does not exist", key.value());
                return Err(Error::Damaged { path: name.to_owned(), why });
            }
            self.leases.move_key(key.value(), None, lease);
        }
        self.keys = entries.len().map_err(failed)?;
        Ok(())
    }

    /// Refuses a file whose next revision or lease would have the number of an earlier one.
    fn check_numbers(&self, name: &str, read: &ReadTransaction) -> Result<(), Error> {
        let history = read.open_table(HISTORY).map_err(failed)?;
        let leases = read.open_table(LEASES).map_err(failed)?;
        let newest = history.last().map_err(failed)?.map_or(0, |(at, _)| at.value().0);
        let lease = leases.last().map_err(failed)?.map_or(0, |(id, _)| id.value());
        let (head, compacted) = (self.head.0, self.compacted.0);
        if newest.max(compacted) <= head && lease <= self.last_lease {
            return Ok(());
        }
        let why = format!(
            "its head is {head}, with history up to {newest} and compaction up to {compacted}; its \
             last lease is {}, with one of number {lease}",
            self.last_lease
        );
        Err(Error::Damaged { path: name.to_owned(), why })
    }
}

/// Creates the tables of a new file, all of them or none.
fn create_tables(database: &Database) -> Result<(), Error> {
    let write = database.begin_write().map_err(failed)?;
    write.open_table(ENTRIES).map_err(failed)?;
    write.open_table(HISTORY).map_err(failed)?;
    write.open_table(LEASES).map_err(failed)?;
    {
        let mut numbers = write.open_table(META).map_err(failed)?;
        numbers.insert(meta::FORMAT, FORMAT).map_err(failed)?;
        for key in [meta::HEAD, meta::COMPACTED, meta::LAST_LEASE] {
            numbers.insert(key, 0).map_err(failed)?;
        }
    }
    write.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    // Numbers that are behind the rows, and a lease that is not there, make a damaged file.
    #[test]
    fn contradictions_are_refused() {
        let opened = |forge: fn(&redb::WriteTransaction)| {
            let database = disk::open_on("memory", InMemoryBackend::new()).unwrap();
            create_tables(&database).unwrap();
            let write = database.begin_write().unwrap();
            forge(&write);
            write.commit().unwrap();
            Core::load("memory", database, Limits::default(), Time::ZERO).map(|core| core.keys)
        };
        let refused = |forge| match opened(forge) {
            Err(Error::Damaged { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(opened(|_| {}), Ok(0));
        let history = refused(|write| {
            let mut rows = write.open_table(HISTORY).unwrap();
            rows.insert((7, 0), ("a", 7, 1, 0, &[][..])).unwrap();
        });
        assert!(history.contains("history up to 7"), "{history}");
        let lease = refused(|write| {
            write.open_table(LEASES).unwrap().insert(3, 10).unwrap();
        });
        assert!(lease.contains("one of number 3"), "{lease}");
        let entry = refused(|write| {
            let mut rows = write.open_table(ENTRIES).unwrap();
            rows.insert("a", (0, 0, 1, 3, &[][..])).unwrap();
        });
        assert_eq!(entry, "`a` has lease 3, which does not exist");
    }
}
