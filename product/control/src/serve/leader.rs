//! One control plane is elected for the work that only one may do.
//!
//! The leader holds a key under a lease. It counts its lease from when it asked ([`Tenure`]), so it
//! stops before another one can start. The only control plane of a file is its leader.
//!
//! The leader's work: it compacts etcd's history, as etcd does not by default, and keeps the records in
//! Route 53 (`route53.rs`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use meridian_base::Time;
use meridian_config::Control as Config;
use tokio::time::{Instant, sleep};

use super::Shared;
use crate::registry::Refused;
use crate::store::{Change, Committed, Guard, LeaseId, Revision, Store, Txn};
use crate::tenure::Tenure;

/// Key of the leader's name.
const KEY: &str = "control/leader";
/// How long a dead leader is missed.
const LEASE: Duration = Duration::from_secs(10);
/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_secs(1);
const _: () = assert!(LEASE.as_secs() / 3 + PAUSE.as_secs() < LEASE.as_secs(), "it is renewed");

/// What a control plane knows of the leader.
pub(super) struct Leader {
    /// The name of this control plane.
    pub(super) own: String,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// The leader's name, as far as it is known.
    name: Option<String>,
    /// If it is this one, how long it is certain of it.
    tenure: Option<Tenure>,
}

impl Leader {
    /// Named after the machine and the address.
    pub(super) fn new(admin: std::net::SocketAddr) -> Leader {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own = format!("{} {admin}", host.trim());
        Leader { own: own.trim_start().to_owned(), now: Mutex::default() }
    }

    /// The leader's name.
    pub(super) fn name(&self) -> Option<String> {
        self.lock().name.clone()
    }

    /// Whether this control plane is certain to be the leader of a shared store.
    pub(super) fn is_own(&self, now: Time) -> bool {
        self.lock().tenure.is_some_and(|tenure| tenure.holds(now))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().expect("no panic while held")
    }
}

/// Takes part in the election, and does the leader's work while it is one.
pub(super) async fn keep(shared: Arc<Shared>, config: Config) {
    if !shared.registry.store().is_shared() {
        let own = shared.leader.own.clone();
        shared.leader.lock().name = Some(own);
        return;
    }
    let mut lease = None;
    let mut history = History::new(config.etcd.as_ref().map(|etcd| etcd.history.0));
    loop {
        let pause = match campaign(&shared, &mut lease).await {
            Ok(true) => {
                history.work(&shared).await;
                LEASE / 3
            }
            Ok(false) => PAUSE,
            Err(refused) => {
                tracing::debug!(%refused, "no election");
                if !shared.leader.is_own(shared.now()) {
                    *shared.leader.lock() = Now::default();
                }
                PAUSE
            }
        };
        sleep(pause).await;
    }
}

/// Renews the lease of the leader, or takes the key if it is free. Returns whether it is the leader.
async fn campaign(shared: &Shared, lease: &mut Option<LeaseId>) -> Result<bool, Refused> {
    let store = shared.registry.store();
    if let Some(id) = *lease {
        let asked = shared.now();
        match store.keep_alive(id).await {
            Ok(ttl) => {
                if let Some(tenure) = &mut shared.leader.lock().tenure {
                    tenure.kept(asked, ttl);
                }
                return Ok(shared.leader.is_own(shared.now()));
            }
            Err(crate::Error::NoLease(_)) => {
                *lease = None;
                *shared.leader.lock() = Now::default();
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(entry) = store.get(KEY).await? {
        let name = String::from_utf8_lossy(&entry.value).into_owned();
        *shared.leader.lock() = Now { name: Some(name), tenure: None };
        return Ok(false);
    }
    let asked = shared.now();
    let granted = store.grant(LEASE).await?;
    let own = shared.leader.own.clone();
    let value = own.clone().into_bytes();
    let put = Change::Put { key: KEY.to_owned(), value, lease: Some(granted.id) };
    let txn = Txn { guards: vec![Guard::Absent(KEY.to_owned())], changes: vec![put] };
    if let Committed::No(_) = store.commit(txn).await? {
        store.revoke(granted.id).await?;
        return Ok(false);
    }
    *lease = Some(granted.id);
    let tenure = Some(Tenure::new(asked, granted.ttl));
    *shared.leader.lock() = Now { name: Some(own), tenure };
    tracing::info!("this control plane is the leader");
    Ok(true)
}

/// Compacts the history that is older than a duration.
struct History {
    /// None or zero: never.
    keeps: Option<Duration>,
    /// A revision, and when it was the newest.
    mark: Option<(Revision, Instant)>,
}

impl History {
    fn new(keeps: Option<Duration>) -> History {
        History { keeps: keeps.filter(|keeps| !keeps.is_zero()), mark: None }
    }

    async fn work(&mut self, shared: &Shared) {
        let Some(keeps) = self.keeps else { return };
        let Ok((newest, _)) = shared.registry.head().await else { return };
        // A store that was restored has gone back.
        let mark = self.mark.filter(|(mark, _)| *mark <= newest);
        let (mark, since) = *self.mark.insert(mark.unwrap_or((newest, Instant::now())));
        if since.elapsed() < keeps || mark == Revision(0) {
            return;
        }
        assert!(mark <= newest, "only history that exists is compacted");
        match shared.registry.store().compact(mark).await {
            Ok(()) | Err(crate::Error::Compacted { .. }) => {
                self.mark = Some((newest, Instant::now()));
            }
            Err(error) => tracing::warn!(%error, "the history could not be compacted"),
        }
    }
}
