//! Comparison of etcd with a naive store.

use std::collections::BTreeMap;

use meridian_base::{Duration, Rng, Time};
use meridian_control::Error;
use meridian_control::etcd::Etcd;
use meridian_control::limits::Limits;
use meridian_control::store::{
    Batch, Change, Committed, Entry, Event, Keys, LeaseId, Revision, Store, Txn, Watch,
};

use crate::etcd::Cluster;
use crate::stores::{FIRST, of_section};
use crate::twin::{Answer, LIMITS, Op, Twin, draw};

/// The twin's leases are numbered from 1, etcd's are not.
#[derive(Default)]
struct Ids(BTreeMap<u64, u64>);

impl Ids {
    /// etcd's number; that of no lease if it never had one.
    fn of_etcd(&self, id: LeaseId) -> LeaseId {
        LeaseId(self.0.get(&id.0).copied().unwrap_or(id.0))
    }

    fn of_twin(&self, id: LeaseId) -> LeaseId {
        let found = self.0.iter().find(|(_, etcds)| **etcds == id.0);
        LeaseId(found.map_or(id.0, |(twins, _)| *twins))
    }

    fn txn(&self, txn: &Txn) -> Txn {
        let change = |change: &Change| match change.clone() {
            Change::Put { key, value, lease } => {
                Change::Put { key, value, lease: lease.map(|id| self.of_etcd(id)) }
            }
            delete => delete,
        };
        Txn { guards: txn.guards.clone(), changes: txn.changes.iter().map(change).collect() }
    }

    fn entry(&self, entry: Entry) -> Entry {
        Entry { lease: entry.lease.map(|id| self.of_twin(id)), ..entry }
    }
}

async fn on_etcd(store: &Etcd, ids: &mut Ids, twins: u64, op: &Op) -> Result<Answer, Error> {
    match op {
        Op::Commit(txn) => {
            let committed = store.commit(ids.txn(txn)).await?;
            Ok(Answer::Committed(match committed {
                Committed::No(found) => {
                    let plain = |one: Option<Entry>| one.map(|entry| ids.entry(entry));
                    Committed::No(found.into_iter().map(plain).collect())
                }
                yes => yes,
            }))
        }
        Op::Grant(seconds) => {
            let lease = store.grant(Duration::from_secs(*seconds)).await?;
            ids.0.insert(twins, lease.id.0);
            Ok(Answer::Lease(twins, lease.ttl.as_secs()))
        }
        Op::KeepAlive(id) => store.keep_alive(ids.of_etcd(*id)).await.map(|_| Answer::Done),
        Op::Revoke(id) => store.revoke(ids.of_etcd(*id)).await.map(|()| Answer::Done),
        Op::Compact(through) => store.compact(*through).await.map(|()| Answer::Done),
    }
}

/// Without the numbers that etcd does not tell.
fn plain(answer: Result<Answer, Error>) -> Result<Answer, Error> {
    answer.map_err(|error| match error {
        Error::OverLimit { what, is, limit, .. } => {
            Error::OverLimit { what, is, limit, remedy: "" }
        }
        Error::Compacted { asked, .. } => Error::Compacted { asked, oldest: Revision(0) },
        Error::Future { asked, .. } => Error::Future { asked, newest: Revision(0) },
        Error::NoLease(_) => Error::NoLease(LeaseId(0)),
        other => other,
    })
}

/// A lease's keys have no order.
fn sorted(mut batch: Batch) -> Batch {
    batch.events.sort_by_key(|event| match event {
        Event::Put(entry) => entry.key.clone(),
        Event::Deleted(key) => key.clone(),
    });
    batch
}

// Random calls: every answer, all entries and all changes that a watch shows equal the twin's.
#[tokio::test]
async fn etcd_agrees_with_its_twin() {
    let most = usize::MAX;
    let ttl = Duration::from_secs(3600);
    let limits = Limits { keys: most, leases: most, history: u64::MAX, ttl, ..LIMITS };
    for seed in 0..4 {
        let cluster = Cluster::start(1, &[]);
        let store = of_section(&cluster.section(), limits);
        let (mut rng, mut ids) = (Rng::new(seed), Ids::default());
        let mut twin = Twin::of(limits, FIRST);
        let (mut watch, mut grants) = (store.watch(&Keys::prefix(""), Revision(FIRST)), 0);
        let mut shown = Revision(FIRST);
        for step in 0..150 {
            let mut op = draw(&mut rng, &twin);
            if let Op::Grant(seconds) = &mut op {
                // None ends during the test.
                *seconds += 600;
                grants += 1;
            }
            let expected = plain(twin.apply(Time::ZERO, &op));
            let answer = plain(on_etcd(&store, &mut ids, grants, &op).await);
            // etcd looks at the guards first.
            let guarded = matches!(&answer, Ok(Answer::Committed(Committed::No(_))));
            if !(guarded && matches!(expected, Err(Error::NoLease(_)))) {
                assert_eq!(answer, expected, "seed {seed}, step {step}, {op:?}");
            }
            let entries = store.list("").await.unwrap().entries;
            let entries: Vec<Entry> = entries.into_iter().map(|one| ids.entry(one)).collect();
            let state = twin.state();
            assert_eq!(entries, state.entries, "seed {seed}, step {step}, {op:?}");
            if let Some(batch) = state.history.last().filter(|last| last.revision > shown) {
                let mut seen = watch.next().await.unwrap();
                for event in &mut seen.events {
                    if let Event::Put(entry) = event {
                        *entry = ids.entry(entry.clone());
                    }
                }
                assert_eq!(&sorted(seen), &sorted(batch.clone()), "seed {seed}, step {step}");
                shown = batch.revision;
            }
        }
    }
}
