//! The control plane's process: the registry behind an HTTP port.
//!
//! Operators, scrapers and gateways use the admin port. With certificates (`secured.rs`) it
//! identifies its clients and checks their permissions. Without, it is plain HTTP for the machine
//! itself, and a token protects it if it listens on more. Gateways report that they are alive and
//! follow every change here; the control plane knows nothing else about them, and no client request
//! passes through it.
//!
//! Deliberately not here: the assignment of replicas, which every gateway computes itself.

mod answer;
mod api;
mod check;
mod descriptors;
mod dns;
mod gateways;
mod identity;
mod intervals;
mod leader;
mod metrics;
mod names;
mod needs;
mod open;
mod reload;
mod reports;
mod route53;
mod secured;
mod watch;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use meridian_base::Time;
use meridian_config::{Control as Config, cannot_listen};
use meridian_protocol::admin::Guard;
use meridian_protocol::peer::Party;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch as channel};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::check::check;
use self::identity::Identity;
use self::intervals::Observed;
use self::leader::Leader;
pub use self::reload::Given;
use self::reports::Reports;
use self::secured::Secured;
use crate::chosen::Chosen;
use crate::registry::{Refused, Registry};
use crate::seldom::Seldom;
use crate::store::Store;

/// Timeout for a request's head.
const HEAD: Duration = Duration::from_secs(5);

/// Why a control plane can't start or serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store can't be opened, or failed.
    #[error("store: {0}")]
    Store(#[from] crate::Error),
    /// The registry can't be initialized.
    #[error("store: {0}")]
    Registry(#[from] Refused),
    /// The store's file can't be opened or created.
    #[error(
        "store: {}: {source}; use a file in an existing folder that this process may write to",
        path.display()
    )]
    StoreFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The settings of the name server can't be used: every problem.
    #[error("{0}")]
    Dns(String),
    /// This build has no etcd.
    #[error("{0}")]
    NoEtcd(&'static str),
    /// This build has no client of Route 53.
    #[error(
        "route53: this build cannot use it; use a release of Meridian, or build with `--features route53`"
    )]
    NoRoute53,
    /// The certificates are unusable.
    #[error(transparent)]
    Tls(#[from] meridian_tls::FileError),
    /// The control plane can't listen on an address.
    #[error("{}", cannot_listen(field, *addr, source))]
    Listen {
        /// The configuration's field.
        field: &'static str,
        /// The address.
        addr: SocketAddr,
        /// The cause.
        source: io::Error,
    },
}

/// The addresses of a running control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Address for operators.
    pub admin: SocketAddr,
    /// Whether they use TLS.
    pub tls: bool,
}

struct Shared {
    registry: Registry<Chosen>,
    /// Identifies the store.
    identity: channel::Sender<Identity>,
    leader: Leader,
    config: Config,
    /// Refuses requests of web pages of other sites.
    guard: Guard,
    tls: Option<Secured>,
    start: Instant,
    /// The date at `start`, in ms since 1970.
    start_ms: u64,
    reports: Mutex<Reports>,
    /// When gateways and replicas were up and down.
    observed: Mutex<Observed>,
    /// Counts the changes of what was observed.
    changes: channel::Sender<u64>,
    dns: Option<dns::Dns>,
    route53: Option<route53::Route53>,
    followers: Arc<AtomicUsize>,
    /// Ends every connection.
    over: CancellationToken,
}

impl Shared {
    /// The time on the store's clock.
    fn now(&self) -> Time {
        since(self.start)
    }

    /// Whether this control plane is certain to be the leader.
    fn leads(&self) -> bool {
        !self.registry.store().is_shared() || self.leader.is_own(self.now())
    }

    /// The store's name.
    fn store(&self) -> String {
        self.identity.borrow().name.clone()
    }

    /// The date, in ms since 1970. It never goes back.
    fn date_ms(&self) -> u64 {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(ms)
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().expect("no panic while held")
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().expect("no panic while held")
    }
}

fn since(start: Instant) -> Time {
    Time::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Serves until `shutdown` completes, or the store fails.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve(
    given: impl Into<Given>,
    on_ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let given = given.into();
    let config = given.config.clone();
    let listener = listen("admin", config.admin).await?;
    let admin = listener.local_addr().map_err(|source| ServeError::Listen {
        field: "admin",
        addr: config.admin,
        source,
    })?;
    for problem in check::doubts(&config) {
        tracing::error!(problem, "the control plane starts with this problem");
    }
    let (named, sockets) = match &config.dns {
        Some(dns) => (Some(dns::Dns::load(dns)?), Some(dns::bind(dns).await?)),
        None => (None, None),
    };
    let route53 = config.route53.as_ref().map(route53::Route53::load).transpose()?;
    let start = Instant::now();
    let store = open::store(&config, start)?;
    let place = open::place(&config, &store);
    let registry = Registry::new(store.clone());
    let mut shutdown = std::pin::pin!(shutdown);
    let identity = tokio::select! {
        named = identity::first(&registry) => named?,
        () = &mut shutdown => return Ok(()),
    };
    let shared = Arc::new(Shared {
        registry,
        identity,
        leader: Leader::new(admin),
        guard: Guard::new("admin_hosts", &config.admin_hosts),
        tls: config.tls.as_ref().map(Secured::load).transpose()?,
        config,
        start,
        start_ms: date_ms(),
        reports: Mutex::default(),
        observed: Mutex::default(),
        changes: channel::Sender::default(),
        dns: named,
        route53,
        followers: Arc::default(),
        over: CancellationToken::new(),
    });
    let _over = shared.over.clone().drop_guard();
    let _background = background(&shared, listener, sockets, given);
    tracing::info!(store = %shared.store(), place, "the registry is open");
    on_ready(Ready { admin, tls: shared.tls.is_some() });
    tokio::select! {
        // Runs forever unless the disk fails; then the store can't be trusted any more.
        failed = keep_time(&store) => failed.map_err(ServeError::Store),
        () = &mut shutdown => Ok(()),
    }
}

/// Starts everything that goes on beside the requests; it ends when the result is dropped.
fn background(
    shared: &Arc<Shared>,
    listener: TcpListener,
    sockets: Option<meridian_dns::Sockets>,
    given: Given,
) -> JoinSet<()> {
    let mut background = JoinSet::new();
    background.spawn(accept(shared.clone(), listener));
    background.spawn(leader::keep(shared.clone(), given.config.clone()));
    background.spawn(reload::keep(shared.clone(), given));
    background.spawn(intervals::keep(shared.clone()));
    if let Some(sockets) = sockets {
        background.spawn(dns::keep(shared.clone(), sockets));
    }
    if shared.route53.is_some() {
        background.spawn(route53::keep(shared.clone()));
    }
    if shared.registry.store().is_shared() {
        background.spawn(identity::keep(shared.clone()));
    }
    background
}

/// Ends the leases of a file in time; etcd does that itself.
async fn keep_time(store: &Chosen) -> Result<(), crate::Error> {
    match store {
        Chosen::File(file) => file.keep_time().await,
        #[cfg(feature = "etcd")]
        Chosen::Etcd(_) => std::future::pending().await,
    }
}

/// The present date, in ms since 1970.
fn date_ms() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "intervals of downtime have dates")]
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(date.as_millis()).unwrap_or(0)
}

/// A number that can't be guessed from outside, from the process's own randomness.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

async fn listen(field: &'static str, addr: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(addr).await.map_err(|source| ServeError::Listen { field, addr, source })
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let most = descriptors::connections(descriptors::raised(), shared.dns.is_some());
    let places = Arc::new(Semaphore::new(most));
    let mut log = Seldom::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or the client has already left.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            if let Some(unlogged) = log.is_due(Instant::now()) {
                tracing::warn!(limit = most, unlogged, "too many connections; one was refused");
            }
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            one(shared, stream).await;
            drop(place);
        });
    }
}

async fn one(shared: Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let over = shared.over.clone();
    let talk = async {
        match &shared.tls {
            None => talk(&shared, stream, None).await,
            Some(tls) => {
                let Some(met) = tls.meet(stream, HEAD).await else { return };
                let revoked = tls.revoked(&met);
                let party = met.party.clone();
                tokio::select! {
                    // Checked first: the list may have changed during the handshake.
                    biased;
                    () = revoked => {
                        tracing::warn!(%party, "a certificate is revoked; its connection is closed");
                    }
                    () = talk(&shared, met.stream, Some(met.party)) => {}
                }
            }
        }
    };
    tokio::select! {
        () = talk => {}
        () = over.cancelled() => {}
    }
}

/// Answers the requests of one connection.
async fn talk<S>(shared: &Arc<Shared>, stream: S, party: Option<Party>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let party = Arc::new(party);
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, party) = (shared.clone(), party.clone());
        async move { Ok::<_, Infallible>(api::answer(&shared, party.as_ref().as_ref(), request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // An error ends the connection.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
