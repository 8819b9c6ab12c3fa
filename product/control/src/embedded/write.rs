//! One transaction being written: rows, history and the later changes in memory.

use redb::{ReadableTable, WriteTransaction};

use super::disk::{self, ENTRIES, HISTORY, META, failed, meta};
use crate::Error;
use crate::store::{Change, LeaseId, Revision};

/// The effects of a transaction, gathered while it is written.
pub(super) struct Writing {
    pub(super) revision: Revision,
    /// Change in the number of keys.
    pub(super) grown: isize,
    /// Keys that move from one lease to another.
    pub(super) moves: Vec<(String, Option<LeaseId>, Option<LeaseId>)>,
    events: u32,
}

impl Writing {
    pub(super) fn new(revision: Revision) -> Writing {
        Writing { revision, grown: 0, moves: Vec::new(), events: 0 }
    }

    /// Whether there is a new revision: deleting an absent key makes none.
    pub(super) fn changed(&self) -> bool {
        self.events > 0
    }

    pub(super) fn make(
        &mut self,
        write: &WriteTransaction,
        changes: &[Change],
    ) -> Result<(), Error> {
        for change in changes {
            match change {
                Change::Put { key, value, lease } => self.put(write, key, value, *lease)?,
                Change::Delete(key) => self.delete(write, key)?,
            }
        }
        if self.changed() {
            let mut numbers = write.open_table(META).map_err(failed)?;
            numbers.insert(meta::HEAD, self.revision.0).map_err(failed)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        write: &WriteTransaction,
        key: &str,
        value: &[u8],
        lease: Option<LeaseId>,
    ) -> Result<(), Error> {
        let mut entries = write.open_table(ENTRIES).map_err(failed)?;
        let before = entries.get(key).map_err(failed)?.map(|row| {
            let (created, _, version, held, _) = row.value();
            (created, version, disk::lease(held))
        });
        let (created, version, held) = before.unwrap_or((self.revision.0, 0, None));
        let raw = disk::raw(lease);
        let row = (created, self.revision.0, version + 1, raw, value);
        entries.insert(key, row).map_err(failed)?;
        self.grown += isize::from(before.is_none());
        self.moves.push((key.to_owned(), held, lease));
        self.record(write, (key, created, version + 1, raw, value))
    }

    fn delete(&mut self, write: &WriteTransaction, key: &str) -> Result<(), Error> {
        let mut entries = write.open_table(ENTRIES).map_err(failed)?;
        let Some(held) = entries.remove(key).map_err(failed)?.map(|row| row.value().3) else {
            return Ok(());
        };
        self.grown -= 1;
        self.moves.push((key.to_owned(), disk::lease(held), None));
        self.record(write, (key, 0, 0, 0, &[]))
    }

    fn record(
        &mut self,
        write: &WriteTransaction,
        past: (&str, u64, u64, u64, &[u8]),
    ) -> Result<(), Error> {
        let mut history = write.open_table(HISTORY).map_err(failed)?;
        let before = history.insert((self.revision.0, self.events), past).map_err(failed)?;
        assert!(before.is_none(), "a change has its own place in the history");
        self.events += 1;
        Ok(())
    }

    /// Removes the history up to and including `through`.
    pub(super) fn forget(write: &WriteTransaction, through: Revision) -> Result<(), Error> {
        let mut history = write.open_table(HISTORY).map_err(failed)?;
        history.retain_in(..=(through.0, u32::MAX), |_, _| false).map_err(failed)?;
        let mut numbers = write.open_table(META).map_err(failed)?;
        numbers.insert(meta::COMPACTED, through.0).map_err(failed)?;
        Ok(())
    }
}
