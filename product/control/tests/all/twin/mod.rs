//! A naive store in memory, and random operations for it and the real one.

#![allow(dead_code, reason = "each test program uses a part of this file")]

use std::collections::BTreeMap;

use meridian_base::{Duration, Rng, Time};
use meridian_control::Error;
use meridian_control::embedded::Core;
use meridian_control::limits::Limits;
use meridian_control::store::{
    Batch, Change, Committed, Entry, Event, Guard, Keys, LeaseId, Revision, Txn,
};

/// Small, so that every limit is reached.
pub(crate) const LIMITS: Limits = Limits {
    key: 8,
    value: 2000,
    keys: 10,
    txn: 3,
    leases: 4,
    ttl: Duration::from_secs(5),
    history: 12,
};

/// The complete visible state of a store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) head: u64,
    pub(crate) compacted: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) leases: Vec<(u64, u64)>,
    pub(crate) history: Vec<Batch>,
}

/// The core's state. No lease ends at `now`.
pub(crate) fn state(core: &mut Core, now: Time) -> State {
    let entries = core.list(now, "").unwrap().entries;
    let (head, compacted) = (core.head(), core.compacted());
    let history = match head > compacted {
        true => core.history(&Keys::prefix(""), compacted.next(), 1000).unwrap().0,
        false => Vec::new(),
    };
    let leases = core.leases().map(|lease| (lease.id.0, lease.ttl.as_secs())).collect();
    State { head: head.0, compacted: compacted.0, entries, leases, history }
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Commit(Txn),
    Grant(u64),
    KeepAlive(LeaseId),
    Revoke(LeaseId),
    Compact(Revision),
}

#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Committed(Committed),
    Lease(u64, u64),
    Done,
}

pub(crate) fn on_core(core: &mut Core, now: Time, op: &Op) -> Result<Answer, Error> {
    match op {
        Op::Commit(txn) => core.commit(now, txn).map(Answer::Committed),
        Op::Grant(seconds) => {
            let lease = core.grant(now, Duration::from_secs(*seconds))?;
            Ok(Answer::Lease(lease.id.0, lease.ttl.as_secs()))
        }
        Op::KeepAlive(id) => core.keep_alive(now, *id).map(|_| Answer::Done),
        Op::Revoke(id) => core.revoke(now, *id).map(|()| Answer::Done),
        Op::Compact(through) => core.compact(now, *through).map(|()| Answer::Done),
    }
}

/// The naive store.
#[derive(Clone, Debug)]
pub(crate) struct Twin {
    limits: Limits,
    pub(crate) entries: BTreeMap<String, Entry>,
    history: Vec<Batch>,
    head: u64,
    compacted: u64,
    last_lease: u64,
    /// Duration in seconds, and the end.
    leases: BTreeMap<u64, (u64, Time)>,
    /// Every state since the trail was last taken, newest last: the possible states after a crash.
    pub(crate) trail: Vec<State>,
}

impl Default for Twin {
    fn default() -> Twin {
        Twin::of(LIMITS, 0)
    }
}

impl Twin {
    /// Of an empty store with these limits and this first revision.
    pub(crate) fn of(limits: Limits, head: u64) -> Twin {
        let (entries, history, trail) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (leases, last_lease, compacted) = (BTreeMap::new(), 0, 0);
        Twin { limits, entries, history, head, compacted, last_lease, leases, trail }
    }

    pub(crate) fn state(&self) -> State {
        State {
            head: self.head,
            compacted: self.compacted,
            entries: self.entries.values().cloned().collect(),
            leases: self.leases.iter().map(|(id, (ttl, _))| (*id, *ttl)).collect(),
            history: self.history.clone(),
        }
    }

    /// Restarts the process: all leases restart. `at` is the state that the crash left.
    pub(crate) fn restart(&mut self, at: &State, now: Time) {
        self.entries = at.entries.iter().map(|e| (e.key.clone(), e.clone())).collect();
        self.history.clone_from(&at.history);
        (self.head, self.compacted) = (at.head, at.compacted);
        let begin = |(id, ttl): &(u64, u64)| (*id, (*ttl, now + Duration::from_secs(*ttl)));
        self.leases = at.leases.iter().map(begin).collect();
        self.trail.clear();
    }

    /// For a crash that may have lost the number of an unacknowledged grant.
    pub(crate) fn restart_numbers(&mut self, last: u64) {
        self.last_lease = last;
    }

    pub(crate) fn apply(&mut self, now: Time, op: &Op) -> Result<Answer, Error> {
        self.expire(now);
        let answer = self.act(now, op);
        self.trail.push(self.state());
        answer
    }

    fn expire(&mut self, now: Time) {
        loop {
            let first = self.leases.iter().map(|(id, (_, end))| (*end, *id)).min();
            let Some((_, id)) = first.filter(|(end, _)| *end <= now) else { return };
            self.end(id);
            self.trail.push(self.state());
        }
    }

    fn end(&mut self, id: u64) {
        self.leases.remove(&id);
        let held = |e: &&Entry| e.lease == Some(LeaseId(id));
        let keys = self.entries.values().filter(held).map(|e| Change::Delete(e.key.clone()));
        self.change(&keys.collect::<Vec<_>>());
    }

    fn act(&mut self, now: Time, op: &Op) -> Result<Answer, Error> {
        match op {
            Op::Commit(txn) => self.commit(txn).map(Answer::Committed),
            Op::Grant(seconds) => {
                within(
                    "a time to live in seconds",
                    *seconds as usize,
                    self.limits.ttl.as_secs() as usize,
                )?;
                within("the number of leases", self.leases.len() + 1, self.limits.leases)?;
                self.last_lease += 1;
                let end = now + Duration::from_secs(*seconds);
                self.leases.insert(self.last_lease, (*seconds, end));
                Ok(Answer::Lease(self.last_lease, *seconds))
            }
            Op::KeepAlive(id) => {
                let (ttl, end) = self.leases.get_mut(&id.0).ok_or(Error::NoLease(*id))?;
                *end = now + Duration::from_secs(*ttl);
                Ok(Answer::Done)
            }
            Op::Revoke(id) => {
                self.leases.get(&id.0).ok_or(Error::NoLease(*id))?;
                self.end(id.0);
                Ok(Answer::Done)
            }
            Op::Compact(through) => {
                let (asked, oldest) = (*through, Revision(self.compacted + 1));
                if through.0 > self.head {
                    return Err(Error::Future { asked, newest: Revision(self.head) });
                }
                if through.0 <= self.compacted {
                    return Err(Error::Compacted { asked, oldest });
                }
                self.forget(through.0);
                Ok(Answer::Done)
            }
        }
    }

    fn commit(&mut self, txn: &Txn) -> Result<Committed, Error> {
        for change in &txn.changes {
            if let Change::Put { lease: Some(id), .. } = change {
                self.leases.get(&id.0).ok_or(Error::NoLease(*id))?;
            }
        }
        let found = txn.guards.iter().map(|guard| self.entries.get(guard.key()).cloned());
        let found: Vec<Option<Entry>> = found.collect();
        let met = txn.guards.iter().zip(&found).all(|(guard, found)| match guard {
            Guard::Absent(_) => found.is_none(),
            Guard::At(_, at) => found.as_ref().map(|e| e.modified) == Some(*at),
        });
        if !met {
            return Ok(Committed::No(found));
        }
        let mut after = self.clone();
        after.change(&txn.changes);
        if after.entries.len() > self.entries.len() {
            within("the number of keys", after.entries.len(), self.limits.keys)?;
        }
        *self = after;
        Ok(Committed::Yes(Revision(self.head)))
    }

    fn change(&mut self, changes: &[Change]) {
        let revision = Revision(self.head + 1);
        let mut events = Vec::new();
        for change in changes {
            let before = self.entries.remove(change.key());
            match change {
                Change::Put { key, value, lease } => {
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone(),
                        created: before.as_ref().map_or(revision, |e| e.created),
                        modified: revision,
                        version: before.map_or(1, |e| e.version + 1),
                        lease: *lease,
                    };
                    events.push(Event::Put(entry.clone()));
                    self.entries.insert(key.clone(), entry);
                }
                Change::Delete(key) => {
                    events.extend(before.map(|_| Event::Deleted(key.clone())));
                }
            }
        }
        if !events.is_empty() {
            self.head += 1;
            self.history.push(Batch { revision, events });
            self.forget(self.compacted.max(self.head.saturating_sub(self.limits.history)));
        }
    }

    fn forget(&mut self, through: u64) {
        self.compacted = through;
        self.history.retain(|batch| batch.revision.0 > through);
    }
}

/// The remedy is the store's own text.
fn within(what: &'static str, is: usize, limit: usize) -> Result<(), Error> {
    if is <= limit { Ok(()) } else { Err(Error::OverLimit { what, is, limit, remedy: "" }) }
}

/// Errors without the remedy, for comparison.
pub(crate) fn plain(answer: Result<Answer, Error>) -> Result<Answer, Error> {
    answer.map_err(|error| match error {
        Error::OverLimit { what, is, limit, .. } => {
            Error::OverLimit { what, is, limit, remedy: "" }
        }
        other => other,
    })
}

/// A random call that suits the current state, and occasionally one that does not.
pub(crate) fn draw(rng: &mut Rng, twin: &Twin) -> Op {
    let lease = |rng: &mut Rng| LeaseId(1 + rng.below(twin.last_lease as usize + 1) as u64);
    match rng.below(20) {
        0 | 1 => Op::Grant(1 + rng.below(6) as u64),
        2 | 3 => Op::KeepAlive(lease(rng)),
        4 => Op::Revoke(lease(rng)),
        5 => Op::Compact(Revision(twin.compacted + rng.below(14) as u64)),
        _ => Op::Commit(txn(rng, twin)),
    }
}

fn txn(rng: &mut Rng, twin: &Twin) -> Txn {
    let mut txn = Txn::default();
    let first = rng.below(14);
    for at in 0..=rng.below(3) {
        let key = format!("k{}", (first + at * 3) % 14);
        let there = twin.entries.get(&key);
        match (rng.below(4), there) {
            (0, Some(entry)) => txn.guards.push(Guard::At(key.clone(), entry.modified)),
            (0, None) => txn.guards.push(Guard::Absent(key.clone())),
            (1, _) if rng.below(4) == 0 => txn.guards.push(Guard::Absent(key.clone())),
            _ => {}
        }
        let held = twin.leases.keys().nth(rng.below(8)).map(|id| LeaseId(*id));
        txn.changes.push(match rng.below(4) {
            0 => Change::Delete(key),
            _ => {
                let value = vec![rng.below(256) as u8; rng.below(40) * rng.below(50)];
                Change::Put { key, value, lease: held }
            }
        });
    }
    txn
}
