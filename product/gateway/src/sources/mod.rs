//! Service discovery: the replicas that the gateway's own file lists, and further ones from a file
//! that may change (`file.rs`), from names in the DNS (`names.rs`) and from a Kubernetes cluster
//! (`kubernetes.rs`).
//!
//! Each of the others has a task that polls it, or watches the cluster. New replicas join; missing ones drain, and leave when
//! their requests have ended. A failed poll changes nothing: the last good result stays in force,
//! and the log, the status and the metrics report the failure. A DNS answer without any address
//! counts as a failure too, so a name server that lost its records does not empty a fleet.
//!
//! A replica belongs to the part that added it first: the file, a source or the admin port. If the
//! registry has a record of it, the registry decides.

mod file;
#[cfg(feature = "kubernetes")]
pub(crate) mod kubernetes;
mod names;
#[cfg(not(feature = "kubernetes"))]
mod without_kubernetes;
#[cfg(not(feature = "kubernetes"))]
pub(crate) use without_kubernetes as kubernetes;
pub(crate) mod source;

use std::sync::Arc;
use std::time::Duration;

use meridian_config as config;
use meridian_protocol::admin::{self, AddReplica};
use meridian_tls::Look;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::source::{Owned, Source};
use crate::lock::{Mutex, RwLock};
use crate::registry::following::Following;
use crate::replicas::membership::Replicas;

/// Interval at which a list is applied again for which there was no room.
const RETRY: Duration = Duration::from_secs(1);

/// Files of `discovery` that are currently invalid, or list more replicas than there may be. A
/// start ignores the former, and takes the first replicas of the latter.
pub(crate) fn problems(config: &config::Gateway) -> Vec<String> {
    let sources = config.discovery.iter().enumerate();
    let of = |(at, source): (usize, &config::Source)| {
        let problem = match file::list(file::read(source.file.as_ref()?)) {
            Ok(list) => {
                let names = list.iter().filter_map(|replica| replica.credentials.as_deref());
                let unknown = |name| config::unknown_credentials(name, &config.credentials);
                let long = || config::beyond_limit(list.len(), config.limits.replicas);
                names.filter_map(unknown).next().or_else(long)?
            }
            Err(problem) => format!("{problem}; write a list of replicas to the file"),
        };
        Some(format!("discovery[{at}].file: {problem}"))
    };
    sources.filter_map(of).collect()
}

/// All sources of the configuration, and its own list of replicas.
pub(crate) struct Sources {
    all: RwLock<Vec<Arc<Source>>>,
    /// The part that added the replicas of the own list; nothing polls it.
    listed: Source,
    list: Mutex<Vec<AddReplica>>,
    /// Sources without a task.
    new: mpsc::UnboundedSender<Arc<Source>>,
    started: Mutex<Option<mpsc::UnboundedReceiver<Arc<Source>>>>,
    replicas: Arc<Replicas>,
    registry: Option<Arc<Following>>,
}

impl Sources {
    /// Without any; see [`configured`](Self::configured).
    pub(crate) fn new(replicas: Arc<Replicas>, registry: Option<Arc<Following>>) -> Sources {
        let (new, started) = mpsc::unbounded_channel();
        Sources {
            all: RwLock::default(),
            listed: Source::of_file(replicas.clone(), registry.clone()),
            list: Mutex::default(),
            new,
            started: Mutex::new(Some(started)),
            replicas,
            registry,
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.all.read().clone()
    }

    /// The state of each, and that of the own list if a replica of it is not here.
    pub(crate) fn status(&self) -> Vec<admin::Source> {
        let listed = Some(self.listed.status()).filter(|listed| !listed.problems.is_empty());
        self.all().iter().map(|source| source.status()).chain(listed).collect()
    }

    /// Adopts another list of replicas and of sources. Sources that were there before go on, one
    /// whose entry changed hands its replicas to its successor, and those of a source that is gone
    /// become the list's: those that it does not have drain.
    pub(crate) fn configured(&self, replicas: Vec<AddReplica>, config: &[config::Source]) {
        let mut list = self.list.lock();
        self.listed.inherits(self.adopt(config));
        self.listed.found(replicas.clone());
        *list = replicas;
    }

    /// Returns the replicas of the sources that are gone.
    fn adopt(&self, config: &[config::Source]) -> Owned {
        let mut all = self.all.write();
        let mut before = std::mem::take(&mut *all);
        for source in config {
            let label = source.label();
            let known = before.iter().position(|known| known.label() == label);
            let known = known.map(|at| before.swap_remove(at));
            if let Some(known) = known.as_ref().filter(|known| known.config == *source) {
                all.push(known.clone());
                continue;
            }
            let (replicas, registry) = (self.replicas.clone(), self.registry.clone());
            let source = Arc::new(Source::new(source, replicas, registry));
            if let Some(known) = known {
                source.inherits(known.ends());
            }
            // Never closed: its receiver is here, or in a task of the gateway.
            let _ = self.new.send(source.clone());
            all.push(source);
        }
        assert_eq!(all.len(), config.len(), "each source of the file has one task");
        before.iter().flat_map(|source| source.ends()).collect()
    }

    /// Applies the own list again if there was no room for all of it.
    fn retry(&self) {
        let list = self.list.lock();
        if self.listed.status().left_out > 0 {
            self.listed.found(list.clone());
        }
    }

    /// Polls every source, also those that a reload adds; never returns.
    pub(crate) async fn keep(&self) {
        let Some(mut new) = self.started.lock().take() else { return };
        let (mut tasks, mut ticks) = (JoinSet::new(), tokio::time::interval(RETRY));
        loop {
            tokio::select! {
                Some(source) = new.recv() => drop(tasks.spawn(poll(source))),
                _ = ticks.tick() => self.retry(),
                Some(ended) = tasks.join_next() => {
                    if let Some(panic) = ended.err().and_then(|e| e.try_into_panic().ok()) {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }
}

async fn poll(source: Arc<Source>) {
    let polling = async {
        match (&source.config.file, &source.config.kubernetes) {
            (Some(path), _) => file::keep(source.clone(), path.clone()).await,
            (None, Some(cluster)) => kubernetes::keep(source.clone(), cluster).await,
            (None, None) => names::keep(source.clone()).await,
        }
    };
    tokio::select! {
        () = polling => {}
        () = source.over.cancelled() => {}
    }
}

/// Reads a source's file at once and returns the result. For a name or a cluster it only triggers a
/// poll: the answer comes later, and no result is returned here.
pub(crate) async fn reload(source: &Source) -> Option<Look> {
    match &source.config.file {
        Some(path) => Some(file::look(source, path).await),
        None => {
            source.again();
            None
        }
    }
}
