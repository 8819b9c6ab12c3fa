//! Transactions.

use etcd_client::{Compare, CompareOp, Txn as Request, TxnOp, TxnOpResponse, TxnResponse};

use super::convert::{Failed, entry, raw, revision};
use super::members::Called;
use crate::Error;
use crate::store::{Change, Committed, Entry, Guard, LeaseId, Txn};

/// The changes if all guards hold; else the guarded entries.
pub(super) fn request(prefix: &str, txn: &Txn) -> Request {
    let full = |key: &str| format!("{prefix}{key}");
    let guard = |guard: &Guard| match guard {
        Guard::Absent(key) => Compare::create_revision(full(key), CompareOp::Equal, 0),
        Guard::At(key, at) => {
            let at = i64::try_from(at.0).unwrap_or(i64::MAX);
            Compare::mod_revision(full(key), CompareOp::Equal, at)
        }
    };
    let change = |change: &Change| match change {
        Change::Put { key, value, lease } => {
            let options = lease.map(|id| etcd_client::PutOptions::new().with_lease(raw(id)));
            TxnOp::put(full(key), value.clone(), options)
        }
        Change::Delete(key) => TxnOp::delete(full(key), None),
    };
    let look = |guard: &Guard| TxnOp::get(full(guard.key()), None);
    Request::new()
        .when(txn.guards.iter().map(guard).collect::<Vec<_>>())
        .and_then(txn.changes.iter().map(change).collect::<Vec<_>>())
        .or_else(txn.guards.iter().map(look).collect::<Vec<_>>())
}

/// The result of a transaction.
pub(super) fn committed(
    prefix: &str,
    txn: &Txn,
    called: &Called<TxnResponse>,
) -> Result<Committed, Error> {
    let answer = &called.answer;
    if answer.succeeded() {
        return Ok(Committed::Yes(revision(answer.header())?));
    }
    let found = answer.op_responses().into_iter().filter_map(|one| match one {
        TxnOpResponse::Get(get) => Some(get.kvs().first().map(|kv| entry(prefix, kv)).transpose()),
        _ => None,
    });
    let found: Vec<Option<Entry>> = found.collect::<Result<_, _>>()?;
    if !called.is_repeated {
        return Ok(Committed::No(found));
    }
    match own(txn, &found) {
        Some(entry) => Ok(Committed::Yes(entry.modified)),
        None if is_deleted(txn, &found) => Ok(Committed::Yes(revision(answer.header())?)),
        None => Ok(Committed::No(found)),
    }
}

/// Whether everything that this transaction deletes is gone, and it changes nothing else.
fn is_deleted(txn: &Txn, found: &[Option<Entry>]) -> bool {
    let deletes = |change: &Change| matches!(change, Change::Delete(_));
    let gone = |(guard, entry): (&Guard, &Option<Entry>)| {
        entry.is_none() && txn.changes.iter().any(|change| change.key() == guard.key())
    };
    !found.is_empty() && txn.changes.iter().all(deletes) && txn.guards.iter().zip(found).all(gone)
}

/// The entry that shows that this transaction was carried out already: a guarded key has the value and
/// the lease that it gives it, at a later revision than the guard's. Without such a key it can't be
/// told.
fn own<'a>(txn: &Txn, found: &'a [Option<Entry>]) -> Option<&'a Entry> {
    let is_own = |(guard, entry): (&Guard, &'a Option<Entry>)| {
        let entry = entry.as_ref()?;
        let later = match guard {
            Guard::Absent(_) => true,
            Guard::At(_, at) => entry.modified > *at,
        };
        let puts = txn.changes.iter().any(|change| match change {
            Change::Put { key, value, lease } => {
                *key == entry.key && *value == entry.value && *lease == entry.lease
            }
            Change::Delete(_) => false,
        });
        (later && puts).then_some(entry)
    };
    txn.guards.iter().zip(found).find_map(is_own)
}

/// The error of a transaction: the only thing that etcd does not find is a lease.
pub(super) fn error(txn: &Txn, failed: Failed) -> Error {
    let mut leases = txn.changes.iter().filter_map(|change| match change {
        Change::Put { lease, .. } => *lease,
        Change::Delete(_) => None,
    });
    failed.of_lease(leases.next().unwrap_or(LeaseId(0))).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Revision;

    // A transaction that was carried out, and whose answer was lost, recognizes its own entry; that of
    // another writer it does not.
    #[test]
    fn its_own_changes_are_recognized() {
        let put = |value: &str, lease| Change::Put {
            key: "k".into(),
            value: value.into(),
            lease: Some(LeaseId(lease)),
        };
        let there = Entry {
            key: "k".into(),
            value: b"a".to_vec(),
            created: Revision(3),
            modified: Revision(7),
            version: 2,
            lease: Some(LeaseId(1)),
        };
        let found = [Some(there)];
        let own = |guard: Guard, change: Change| {
            own(&Txn { guards: vec![guard], changes: vec![change] }, &found).is_some()
        };
        let at = |revision| Guard::At("k".into(), Revision(revision));
        assert!(own(at(6), put("a", 1)) && own(Guard::Absent("k".into()), put("a", 1)));
        assert!(!own(at(7), put("a", 1)), "it is the guard's own entry");
        assert!(!own(at(6), put("b", 1)) && !own(at(6), put("a", 2)));
        assert!(!own(at(6), Change::Delete("k".into())));
        let delete = Txn { guards: vec![at(7)], changes: vec![Change::Delete("k".into())] };
        assert!(is_deleted(&delete, &[None]) && !is_deleted(&delete, &found));
    }
}
