//! The embedded store without tasks and clocks: each call gets the time as an argument.
//!
//! One call is one transaction of redb and one fsync. The values kept in memory (the revision, the
//! number of keys, the leases' ends) change only after the commit has returned, so a reader never
//! sees a change that a crash could undo. After a failed write the contents of the disk are
//! unknown: every later call fails, and opening the file again shows the result.

mod load;

use std::path::Path;

use meridian_base::{Duration, Time};
use redb::{Database, ReadTransaction, ReadableDatabase, StorageBackend, WriteTransaction};

use super::disk::{self, ENTRIES, HISTORY, LEASES, META, failed, meta};
use super::leases::Leases;
use super::write::Writing;
use crate::Error;
use crate::limits::{Limits, within};
use crate::store::{
    Batch, Change, Committed, Entry, Event, Guard, Keys, Lease, LeaseId, Listing, Revision, Txn,
};

/// The embedded store; each call gets the time as an argument.
#[derive(Debug)]
pub struct Core {
    database: Database,
    limits: Limits,
    head: Revision,
    compacted: Revision,
    last_lease: u64,
    keys: u64,
    leases: Leases,
    /// Error of the first failed write.
    broken: Option<Error>,
}

impl Core {
    /// Opens the file, or creates it. Every lease in it restarts at `now`.
    ///
    /// # Errors
    /// If another process has opened the file, it is damaged, or the disk fails.
    pub fn open(path: &Path, limits: Limits, now: Time) -> Result<Core, Error> {
        Core::load(&path.display().to_string(), disk::open_file(path)?, limits, now)
    }

    /// The same on any storage: tests use a disk that loses unsynced writes.
    ///
    /// # Errors
    /// As [`Core::open`].
    pub fn open_on(backend: impl StorageBackend, limits: Limits, now: Time) -> Result<Core, Error> {
        Core::load("the storage", disk::open_on("the storage", backend)?, limits, now)
    }

    /// The newest revision.
    #[must_use]
    pub fn head(&self) -> Revision {
        self.head
    }

    /// The newest revision whose history is deleted.
    #[must_use]
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The lease granted last, whether or not it has ended.
    #[must_use]
    pub fn last_lease(&self) -> Option<LeaseId> {
        disk::lease(self.last_lease)
    }

    /// All leases with their times to live.
    pub fn leases(&self) -> impl Iterator<Item = Lease> {
        self.leases.all().map(|(id, ttl)| Lease { id, ttl })
    }

    /// When the next lease ends, unless it is renewed.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        self.leases.next_end().map(|(ends, _)| ends)
    }

    /// Ends expired leases. Every other call does so first.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn expire(&mut self, now: Time) -> Result<(), Error> {
        self.whole()?;
        while let Some((ends, id)) = self.leases.next_end() {
            if ends > now {
                break;
            }
            self.end_lease(id)?;
        }
        Ok(())
    }

    /// The entry at a key.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn get(&mut self, now: Time, key: &str) -> Result<Option<Entry>, Error> {
        self.expire(now)?;
        let read = self.database.begin_read().map_err(failed)?;
        let entries = read.open_table(ENTRIES).map_err(failed)?;
        let found = entries.get(key).map_err(failed)?;
        Ok(found.map(|row| disk::entry(key, row.value())))
    }

    /// The entries whose keys start with `prefix`.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn list(&mut self, now: Time, prefix: &str) -> Result<Listing, Error> {
        self.expire(now)?;
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(ENTRIES).map_err(failed)?;
        let mut entries = Vec::new();
        for row in table.range(prefix..).map_err(failed)? {
            let (key, row) = row.map_err(failed)?;
            if !key.value().starts_with(prefix) {
                break;
            }
            entries.push(disk::entry(key.value(), row.value()));
        }
        Ok(Listing { revision: self.head, entries })
    }

    /// Makes changes if the guards hold.
    ///
    /// # Errors
    /// If a limit is exceeded, a lease does not exist, or the disk fails.
    pub fn commit(&mut self, now: Time, txn: &Txn) -> Result<Committed, Error> {
        self.expire(now)?;
        self.limits.admit(txn)?;
        for change in &txn.changes {
            if let Change::Put { lease: Some(id), .. } = change
                && !self.leases.has(*id)
            {
                return Err(Error::NoLease(*id));
            }
        }
        let found = self.guarded(&txn.guards)?;
        if !txn.guards.iter().zip(&found).all(|(guard, entry)| holds(guard, entry.as_ref())) {
            return Ok(Committed::No(found));
        }
        self.apply(&txn.changes, |_| Ok(()))?;
        Ok(Committed::Yes(self.head))
    }

    fn guarded(&self, guards: &[Guard]) -> Result<Vec<Option<Entry>>, Error> {
        let read: ReadTransaction = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(ENTRIES).map_err(failed)?;
        let look = |guard: &Guard| {
            let row = table.get(guard.key()).map_err(failed)?;
            Ok(row.map(|row| disk::entry(guard.key(), row.value())))
        };
        guards.iter().map(look).collect()
    }

    /// A new lease of at least `ttl`.
    ///
    /// # Errors
    /// If a limit is exceeded, or the disk fails.
    pub fn grant(&mut self, now: Time, ttl: Duration) -> Result<Lease, Error> {
        self.expire(now)?;
        let ttl = self.limits.grant(ttl)?;
        let remedy = "release leases that are not needed";
        within("the number of leases", self.leases.len() + 1, self.limits.leases, remedy)?;
        let id = LeaseId(self.last_lease + 1);
        self.apply(&[], |write| {
            let mut leases = write.open_table(LEASES).map_err(failed)?;
            leases.insert(id.0, ttl.as_secs()).map_err(failed)?;
            let mut numbers = write.open_table(META).map_err(failed)?;
            numbers.insert(meta::LAST_LEASE, id.0).map_err(failed)?;
            Ok(())
        })?;
        self.last_lease = id.0;
        self.leases.begin(now, id, ttl);
        Ok(Lease { id, ttl })
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// If the lease does not exist, or the disk fails.
    pub fn keep_alive(&mut self, now: Time, id: LeaseId) -> Result<Duration, Error> {
        self.expire(now)?;
        self.leases.keep(now, id).ok_or(Error::NoLease(id))
    }

    /// Ends a lease; its keys are deleted at one revision.
    ///
    /// # Errors
    /// If the lease does not exist, or the disk fails.
    pub fn revoke(&mut self, now: Time, id: LeaseId) -> Result<(), Error> {
        self.expire(now)?;
        if !self.leases.has(id) {
            return Err(Error::NoLease(id));
        }
        self.end_lease(id)
    }

    fn end_lease(&mut self, id: LeaseId) -> Result<(), Error> {
        let keys: Vec<Change> = self.leases.keys(id).into_iter().map(Change::Delete).collect();
        self.apply(&keys, |write| {
            write.open_table(LEASES).map_err(failed)?.remove(id.0).map_err(failed)?;
            Ok(())
        })?;
        self.leases.end(id);
        Ok(())
    }

    /// The changes of `keys` from revision `from` on, at most `at_most` revisions of them, and
    /// the last revision examined.
    ///
    /// # Errors
    /// If `from` is compacted, or the disk fails.
    ///
    /// # Panics
    /// If `at_most` is 0.
    pub fn history(
        &self,
        keys: &Keys,
        from: Revision,
        at_most: usize,
    ) -> Result<(Vec<Batch>, Revision), Error> {
        assert!(at_most > 0, "a part of the history has at least one revision");
        self.whole()?;
        let from = from.max(Revision(1));
        if from <= self.compacted {
            return Err(Error::Compacted { asked: from, oldest: self.compacted.next() });
        }
        let through = self.head.min(Revision(from.0.saturating_add(at_most as u64) - 1));
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(HISTORY).map_err(failed)?;
        let mut batches: Vec<Batch> = Vec::new();
        for row in table.range((from.0, 0)..=(through.0, u32::MAX)).map_err(failed)? {
            let (at, row) = row.map_err(failed)?;
            let revision = Revision(at.value().0);
            let (key, created, version, lease, value) = row.value();
            if !keys.has(key) {
                continue;
            }
            let event = match version {
                0 => Event::Deleted(key.to_owned()),
                _ => Event::Put(disk::entry(key, (created, revision.0, version, lease, value))),
            };
            match batches.last_mut() {
                Some(batch) if batch.revision == revision => batch.events.push(event),
                last => {
                    let is_later = last.is_none_or(|batch| batch.revision < revision);
                    assert!(is_later, "the history is read in the order of its revisions");
                    batches.push(Batch { revision, events: vec![event] });
                }
            }
        }
        Ok((batches, through))
    }

    /// Deletes the history up to and including `through`.
    ///
    /// # Errors
    /// If `through` has been compacted already or lies in the future, or the disk fails.
    pub fn compact(&mut self, now: Time, through: Revision) -> Result<(), Error> {
        self.expire(now)?;
        if through > self.head {
            return Err(Error::Future { asked: through, newest: self.head });
        }
        if through <= self.compacted {
            return Err(Error::Compacted { asked: through, oldest: self.compacted.next() });
        }
        let write = self.database.begin_write().map_err(failed)?;
        let done = Writing::forget(&write, through);
        self.conclude(write, done)?;
        self.compacted = through;
        Ok(())
    }

    /// Makes changes at the next revision, together with everything else in the same transaction.
    fn apply(
        &mut self,
        changes: &[Change],
        besides: impl FnOnce(&WriteTransaction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let write = self.database.begin_write().map_err(failed)?;
        let mut writing = Writing::new(self.head.next());
        let keys = usize::try_from(self.keys).unwrap_or(usize::MAX);
        let oldest = Revision(writing.revision.0.saturating_sub(self.limits.history));
        let forget = oldest > self.compacted;
        let mut done = writing.make(&write, changes).and_then(|()| besides(&write));
        if done.is_ok() && forget && writing.changed() {
            done = Writing::forget(&write, oldest);
        }
        if done.is_ok() {
            let remedy = "delete keys that are not needed";
            let total = keys.saturating_add_signed(writing.grown);
            if writing.grown > 0 {
                done = within("the number of keys", total, self.limits.keys, remedy);
            }
        }
        self.conclude(write, done)?;
        let keys = self.keys.checked_add_signed(writing.grown as i64);
        assert!(keys.is_some(), "no more keys are deleted than are counted");
        self.keys = keys.unwrap_or_default();
        if writing.changed() {
            assert!(self.head < writing.revision, "the revisions of a store only rise");
            self.head = writing.revision;
            self.compacted = if forget { oldest } else { self.compacted };
        }
        assert!(self.compacted <= self.head, "only history that exists is deleted");
        for (key, from, to) in writing.moves {
            self.leases.move_key(&key, from, to);
        }
        Ok(())
    }

    /// Commits, or rolls back. Only an error of the disk breaks the store.
    fn conclude(&mut self, write: WriteTransaction, done: Result<(), Error>) -> Result<(), Error> {
        let result = match done {
            Ok(()) => write.commit().map_err(failed),
            Err(error) => write.abort().map_err(failed).and(Err(error)),
        };
        if let Err(error @ Error::Failed(_)) = &result {
            self.broken = Some(error.clone());
        }
        result
    }

    fn whole(&self) -> Result<(), Error> {
        self.broken.clone().map_or(Ok(()), Err)
    }
}

fn holds(guard: &Guard, entry: Option<&Entry>) -> bool {
    match guard {
        Guard::Absent(_) => entry.is_none(),
        Guard::At(_, revision) => entry.is_some_and(|entry| entry.modified == *revision),
    }
}
