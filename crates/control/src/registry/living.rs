//! Gateways that live: their names, their leases, and what they say under them.
//!
//! A name is its gateway's own for as long as its lease; whoever speaks under a name shows the
//! lease, so a gateway that was taken for gone can't write over the one that came after it.

use std::collections::BTreeMap;

use meridian_base::{Duration, Time};
use meridian_wire::registry::{Gateway, Seen};

use super::{Key, Refused, Registry, json, read};
use crate::Error;
use crate::store::{Change, Committed, Entry, Guard, LeaseId, Store, Txn};
use crate::tenure::Tenure;

/// Records that are written in one transaction.
const AT_ONCE: usize = 100;

/// A gateway that has announced itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The lease that its records go with.
    pub lease: LeaseId,
    /// How long it may take its name for its own.
    pub tenure: Tenure,
}

impl<S: Store> Registry<S> {
    /// A gateway says that it lives, under a name that nobody else has. `asked` is the gateway's
    /// own time before the call.
    ///
    /// # Errors
    /// When the name is in use: by another gateway, or by its own life before a restart, until
    /// that one's lease has run out.
    pub async fn announce(
        &self,
        name: &str,
        gateway: &Gateway,
        ttl: Duration,
        asked: Time,
    ) -> Result<Announced, Refused> {
        let key = Key::gateway(name)?;
        super::region_name(&gateway.region)?;
        let lease = self.store.grant(ttl).await?;
        let text = key.to_string();
        let put = Change::Put { key: text.clone(), value: json(gateway), lease: Some(lease.id) };
        let txn = Txn { guards: vec![Guard::Absent(text)], changes: vec![put] };
        match self.store.commit(txn).await? {
            Committed::Yes(_) => {
                Ok(Announced { lease: lease.id, tenure: Tenure::new(asked, lease.ttl) })
            }
            Committed::No(_) => {
                self.store.revoke(lease.id).await?;
                Err(Refused::There { what: key.what(), name: name.to_owned() })
            }
        }
    }

    /// A gateway says that it still lives; the answer is how long it counts as alive.
    ///
    /// # Errors
    /// When the name is no longer its own: its lease ran out, or another one has the name.
    pub async fn keep(&self, name: &str, lease: LeaseId) -> Result<Duration, Refused> {
        self.own(name, lease).await?;
        Ok(self.store.keep_alive(lease).await?)
    }

    /// A gateway says that it goes: its records go at once.
    ///
    /// # Errors
    /// When the name is no longer its own.
    pub async fn retire(&self, name: &str, lease: LeaseId) -> Result<(), Refused> {
        self.own(name, lease).await?;
        Ok(self.store.revoke(lease).await?)
    }

    /// The gateway's record, where that lease holds it.
    async fn own(&self, name: &str, lease: LeaseId) -> Result<Entry, Refused> {
        let there = self.store.get(&Key::gateway(name)?.to_string()).await?;
        there.filter(|entry| entry.lease == Some(lease)).ok_or(Error::NoLease(lease).into())
    }

    /// A gateway says what it sees of replicas, and of which it sees nothing any more. Many are
    /// written in several transactions.
    ///
    /// # Errors
    /// When its lease is over.
    pub async fn observe(
        &self,
        gateway: &str,
        lease: LeaseId,
        seen: &BTreeMap<String, Option<Seen>>,
    ) -> Result<(), Refused> {
        let mut changes = Vec::new();
        for (replica, seen) in seen {
            let key = Key::seen(replica, gateway)?.to_string();
            changes.push(match seen {
                Some(seen) => Change::Put { key, value: json(seen), lease: Some(lease) },
                None => Change::Delete(key),
            });
        }
        for some in changes.chunks(AT_ONCE) {
            let txn = Txn { guards: Vec::new(), changes: some.to_vec() };
            self.store.commit(txn).await?;
        }
        Ok(())
    }

    /// A gateway's own record.
    ///
    /// # Errors
    /// When the name is no longer its own.
    pub async fn gateway(&self, name: &str, lease: LeaseId) -> Result<Gateway, Refused> {
        let there = self.own(name, lease).await?;
        read(&Key::gateway(name)?, &there.value)
    }

    /// A gateway says how far away other regions are.
    ///
    /// # Errors
    /// When the name is no longer its own.
    pub async fn measured(
        &self,
        name: &str,
        lease: LeaseId,
        rtt_ms: &BTreeMap<String, f64>,
    ) -> Result<(), Refused> {
        let key = Key::gateway(name)?;
        let there = self.own(name, lease).await?;
        let before: Gateway = read(&key, &there.value)?;
        let after = Gateway { rtt_ms: rtt_ms.clone(), ..before };
        let guards = vec![Guard::At(key.to_string(), there.modified)];
        let put = Change::Put { key: key.to_string(), value: json(&after), lease: Some(lease) };
        match self.store.commit(Txn { guards, changes: vec![put] }).await? {
            Committed::Yes(_) => Ok(()),
            Committed::No(_) => Err(key.busy()),
        }
    }
}
