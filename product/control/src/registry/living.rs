//! Gateways that are alive: their names, their leases, and their reports.
//!
//! A name belongs to its gateway for as long as its lease. Every request under a name shows the
//! lease, so a gateway that was considered gone can't overwrite the records of its successor.

use std::collections::BTreeMap;

use meridian_base::{Duration, Time};
use meridian_protocol::registry::{Gateway, Report, Seen};

use super::{Key, Refused, Registry, json, read};
use crate::Error;
use crate::limits::TXN;
use crate::store::{Change, Committed, Entry, Guard, LeaseId, Store, Txn};
use crate::tenure::Tenure;

/// Records written in one transaction.
pub(super) const AT_ONCE: usize = 100;
const _: () = assert!(AT_ONCE <= TXN, "a store accepts as many records in one transaction");

/// A registered gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The lease of its records.
    pub lease: LeaseId,
    /// How long it may consider the name its own.
    pub tenure: Tenure,
}

impl<S: Store> Registry<S> {
    /// Registers a gateway under a free name. `asked` is the gateway's own time before the call.
    ///
    /// # Errors
    /// If the name is in use, by another gateway or by its own process before a restart, until that
    /// lease has run out.
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

    /// Renews a gateway's lease; returns how long the gateway counts as alive.
    ///
    /// # Errors
    /// If the name is no longer its own: its lease ran out, or another gateway has the name.
    pub async fn keep(&self, name: &str, lease: LeaseId) -> Result<Duration, Refused> {
        self.own(name, lease).await?;
        Ok(self.store.keep_alive(lease).await?)
    }

    /// Deregisters a gateway: its records disappear at once. Its own shows before that it leaves, so
    /// that it does not count as one whose lease ran out.
    ///
    /// # Errors
    /// If the name is no longer its own.
    pub async fn retire(&self, name: &str, lease: LeaseId) -> Result<(), Refused> {
        let leaves = |before| Gateway { leaving: true, ..before };
        match self.rewrite(name, lease, leaves).await {
            Ok(()) | Err(Refused::Busy { .. }) => Ok(self.store.revoke(lease).await?),
            Err(refused) => Err(refused),
        }
    }

    /// Writes a gateway's newest report.
    ///
    /// # Errors
    /// If its lease has ended.
    pub async fn report(
        &self,
        gateway: &str,
        lease: LeaseId,
        report: &Report,
    ) -> Result<(), Refused> {
        let key = Key::load(gateway)?.to_string();
        let put = Change::Put { key, value: json(report), lease: Some(lease) };
        self.store.commit(Txn { guards: Vec::new(), changes: vec![put] }).await?;
        Ok(())
    }

    /// The gateway's record, if that lease holds it.
    async fn own(&self, name: &str, lease: LeaseId) -> Result<Entry, Refused> {
        let there = self.store.get(&Key::gateway(name)?.to_string()).await?;
        there.filter(|entry| entry.lease == Some(lease)).ok_or(Error::NoLease(lease).into())
    }

    /// Writes a gateway's observations of replicas, and removes outdated ones. Many are written in
    /// several transactions.
    ///
    /// # Errors
    /// If its lease has ended.
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
    /// If the name is no longer its own.
    pub async fn gateway(&self, name: &str, lease: LeaseId) -> Result<Gateway, Refused> {
        let there = self.own(name, lease).await?;
        read(&Key::gateway(name)?, &there.value)
    }

    /// Writes a gateway's measured round trips to other regions.
    ///
    /// # Errors
    /// If the name is no longer its own.
    pub async fn measured(
        &self,
        name: &str,
        lease: LeaseId,
        rtt_ms: &BTreeMap<String, f64>,
    ) -> Result<(), Refused> {
        self.rewrite(name, lease, |before| Gateway { rtt_ms: rtt_ms.clone(), ..before }).await
    }

    /// Changes a gateway's own record.
    async fn rewrite(
        &self,
        name: &str,
        lease: LeaseId,
        act: impl FnOnce(Gateway) -> Gateway,
    ) -> Result<(), Refused> {
        let key = Key::gateway(name)?;
        let there = self.own(name, lease).await?;
        let after = act(read(&key, &there.value)?);
        let guards = vec![Guard::At(key.to_string(), there.modified)];
        let put = Change::Put { key: key.to_string(), value: json(&after), lease: Some(lease) };
        match self.store.commit(Txn { guards, changes: vec![put] }).await? {
            Committed::Yes(_) => Ok(()),
            Committed::No(_) => Err(key.busy()),
        }
    }
}
