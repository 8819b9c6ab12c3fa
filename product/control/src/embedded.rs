//! The embedded store: one file, kept by redb, with no other service needed.
//!
//! [`Core`] is the store without tasks and clocks; this module adds both. Reads and writes run on
//! threads that may block, since a write ends with an fsync. A watch pulls from the history on disk
//! at its own pace, so a slow one costs no memory, and gets an error when it falls behind the kept
//! history.
//!
//! Only one process at a time can open the file. Several copies of the control plane need etcd.

mod core;
mod disk;
mod leases;
mod write;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use meridian_base::{Duration, Time};
use tokio::sync::watch;

pub use self::core::Core;
pub use redb::StorageBackend;

use crate::Error;
use crate::limits::Limits;
use crate::store::{
    Batch, Committed, Entry, Keys, Lease, LeaseId, Listing, Revision, Store, Txn, Watch,
};

/// The time since an epoch of the process; never runs backwards.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Revisions that a watch reads at once.
const AT_ONCE: usize = 256;
/// The longest time between two checks of the leases.
const LOOK: Duration = Duration::from_millis(500);

/// The embedded store. Cheap to clone; the file is closed with the last clone.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    core: Mutex<Core>,
    clock: Clock,
    head: watch::Sender<Revision>,
}

impl Embedded {
    /// Opens the file, or creates it. Every lease in it restarts.
    ///
    /// # Errors
    /// If another process has opened the file, it is damaged, or the disk fails.
    pub fn open(path: &Path, limits: Limits, clock: Clock) -> Result<Embedded, Error> {
        let core = Core::open(path, limits, clock())?;
        Ok(Embedded::new(core, clock))
    }

    /// The store around a core.
    #[must_use]
    pub fn new(core: Core, clock: Clock) -> Embedded {
        let head = watch::Sender::new(core.head());
        Embedded { shared: Arc::new(Shared { core: Mutex::new(core), clock, head }) }
    }

    /// Ends leases in time, for as long as it is polled. Without it a lease ends at the next call
    /// of any method: no reader ever sees a key beyond its lease, but watches are notified late.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn keep_time(&self) -> Result<(), Error> {
        loop {
            let next = self.run(|core, now| Ok(core.next_end().map(|at| at.since(now)))).await?;
            tokio::time::sleep(next.map_or(LOOK, |wait| wait.min(LOOK))).await;
            self.run(Core::expire).await?;
        }
    }

    /// Runs `act` with the core on a thread that may block, and wakes watches if something changed.
    async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Core, Time) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = self.shared.clone();
        let task = tokio::task::spawn_blocking(move || {
            let Ok(mut core) = shared.core.lock() else {
                return Err(Error::Failed("an earlier call panicked".into()));
            };
            let before = core.head();
            let result = act(&mut core, (shared.clock)());
            let head = core.head();
            assert!(before <= head, "watches wait for revisions, which only rise");
            shared.head.send_if_modified(|seen| std::mem::replace(seen, head) != head);
            result
        });
        task.await.unwrap_or_else(|died| Err(Error::Failed(died.to_string())))
    }
}

impl Store for Embedded {
    type Watch = Reader;

    fn is_shared(&self) -> bool {
        false
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let key = key.to_owned();
        self.run(move |core, now| core.get(now, &key)).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing, Error> {
        let prefix = prefix.to_owned();
        self.run(move |core, now| core.list(now, &prefix)).await
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        self.run(move |core, now| core.commit(now, &txn)).await
    }

    async fn grant(&self, ttl: Duration) -> Result<Lease, Error> {
        self.run(move |core, now| core.grant(now, ttl)).await
    }

    async fn keep_alive(&self, id: LeaseId) -> Result<Duration, Error> {
        self.run(move |core, now| core.keep_alive(now, id)).await
    }

    async fn revoke(&self, id: LeaseId) -> Result<(), Error> {
        self.run(move |core, now| core.revoke(now, id)).await
    }

    fn watch(&self, keys: &Keys, from: Revision) -> Reader {
        Reader {
            store: self.clone(),
            head: self.shared.head.subscribe(),
            keys: keys.clone(),
            next: from,
            ready: VecDeque::new(),
        }
    }

    async fn compact(&self, through: Revision) -> Result<(), Error> {
        self.run(move |core, now| core.compact(now, through)).await
    }
}

/// Reads the history as it grows.
pub struct Reader {
    store: Embedded,
    head: watch::Receiver<Revision>,
    keys: Keys,
    next: Revision,
    ready: VecDeque<Batch>,
}

impl Watch for Reader {
    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(batch);
            }
            let next = self.next;
            let reached = self.head.wait_for(|head| *head >= next).await.map(|_| ());
            reached.map_err(|_| Error::Failed("the store was closed".into()))?;
            let keys = self.keys.clone();
            let (batches, through) =
                self.store.run(move |core, _| core.history(&keys, next, AT_ONCE)).await?;
            assert!(through >= next, "each part of the history takes a watch forward");
            self.ready = batches.into();
            self.next = through.next();
        }
    }
}
