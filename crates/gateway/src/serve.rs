//! Listening, accepting, and going down in order.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use meridian_base::keyed;
use meridian_routing::Routing;
use meridian_wire::config::Gateway as Config;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessNow, Given};
use crate::admin::explain::Explained;
use crate::admin::{Caller, Sessions};
use crate::check::{self, Parts};
use crate::error::Error;
use crate::http::body::Body;
use crate::http::cors::Cors;
use crate::http::limits::{Bound, check_descriptors};
use crate::inputs::fingerprint::ReadingNow;
use crate::inputs::pins::Pins;
use crate::inputs::residency::Residency;
use crate::inputs::salts::Salts;
use crate::machine::driver::Driver;
use crate::metrics::Metrics;
use crate::replicas::fleet::Fleet;
use crate::replicas::upstream::Upstream;
use crate::replicas::{discovery, probes};
use crate::shared::{Ids, Ratios, Shared};
use crate::sources::Source;
use crate::worker::Workers;
use crate::{admin, lock, opening, peers, registry, reload, sources};

/// Where a gateway listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Clients connect here.
    pub listen: SocketAddr,
    /// Operators connect here.
    pub admin: SocketAddr,
    /// Peers connect here, where the configuration has some.
    pub peers: Option<SocketAddr>,
    /// Clients come over TLS.
    pub tls: bool,
    /// Operators come over TLS.
    pub admin_tls: bool,
}

/// Serves until `shutdown` completes, then lets the requests in flight end. Where the configuration
/// comes with its file, changes of `tenants` and `residency` there are used while it serves.
///
/// With `threads` above 0, that many threads serve clients, each with a runtime of its own, and
/// the caller's runtime keeps the machine's time, probes and the admin port. With 0 everything
/// runs on the caller's runtime, whose clock may be paused.
///
/// # Errors
/// See [`Error`]; all of them before the first request.
pub async fn serve(
    given: impl Into<Given>,
    threads: usize,
    on_ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Given { config, file, reload } = given.into();
    let peers = config.peers.as_ref().map_or(0, |_| peers::CONNECTIONS);
    check_descriptors(config.limits.connections, config.limits.replicas.saturating_add(peers))?;
    let listener = listen("listen", config.listen).await?;
    let admin_listener = listen("admin", config.admin).await?;
    let peer_listener = match &config.peers {
        Some(peers) => Some(listen("peers.listen", peers.listen).await?),
        None => None,
    };
    let (wishes, wished) = mpsc::unbounded_channel();
    let shared = Arc::new(build(config, file.as_deref(), wishes)?);
    // However this future ends, nothing that it started outlives it.
    let _over = shared.over.clone().drop_guard();
    for spec in shared.config.replicas.clone() {
        // The configuration was checked: no twin, no bad URL.
        if let Err(error) = discovery::join(&shared, spec) {
            tracing::error!(error = %error, "replica left out");
        }
    }
    let workers = Workers::start(&shared, threads)?;
    let ready = Ready {
        listen: address(&listener)?,
        admin: address(&admin_listener)?,
        peers: peer_listener.as_ref().map(address).transpose()?,
        tls: shared.tls.is_some(),
        admin_tls: shared.admin_tls.is_some(),
    };
    let driver = shared.driver.clone();
    let mut background = JoinSet::new();
    background.spawn(async move { driver.keep_time().await });
    background.spawn(probes::run(shared.clone(), wished));
    background.spawn(reload::keep(shared.clone(), reload));
    background.spawn(serve_admin(shared.clone(), admin_listener));
    if let Some(listener) = peer_listener {
        peers::start(&shared, listener, &mut background);
    }
    registry::start(&shared, ready, &mut background);
    sources::start(&shared, &mut background);
    on_ready(ready);
    tokio::select! {
        () = accept(&shared, &workers, listener, shutdown) => {}
        () = lock::abort_on_panic(&mut background) => {}
    }
    let peers = async {
        if let Some(peers) = &shared.peers {
            peers.drain(shared.config.timeouts.drain.0).await;
        }
    };
    tokio::join!(registry::leave(&shared), workers.drain(), peers);
    Ok(())
}

async fn listen(field: &'static str, addr: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(addr).await.map_err(|source| Error::Listen { field, addr, source })
}

fn address(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener
        .local_addr()
        .map_err(|source| Error::Io { what: "reading a listener's address", source })
}

fn build(
    config: Config,
    file: Option<&Path>,
    wishes: mpsc::UnboundedSender<meridian_base::ReplicaId>,
) -> Result<Shared, Error> {
    let routing = config.routing()?;
    let spec = (routing.policy.index)(&routing.params);
    let seed = match &config.secret {
        Some(secret) => keyed(0, secret.as_bytes()),
        None => random_seed(),
    };
    let reading = ReadingNow::new(seed, config.resume.is_some(), routing.policy, &routing.params);
    let block_bytes = spec.map(|s| s.block_bytes);
    let Parts { peers, tls, admin_tls, registry } =
        Parts::make(&config, seed, block_bytes, routing.policy.name)?;
    for problem in check::doubts(&config) {
        tracing::error!(problem, "the gateway starts nevertheless");
    }
    if peers.is_some() && config.secret.is_none() {
        tracing::warn!("no secret: prefixes are not shared with peers; give all gateways the same");
    }
    if !config.tenants.is_empty() && config.tls.is_none() && !config.listen.ip().is_loopback() {
        tracing::warn!(
            "tenants' keys come in plain HTTP; name a certificate in tls, or let something in front of this gateway end TLS"
        );
    }
    if config.tenants.is_empty()
        && config.cors.as_ref().is_some_and(meridian_wire::config::Cors::is_open)
    {
        tracing::warn!(
            "cors.origins is `*` and no tenants are named: every page that a browser in this network opens can use the gateway; name the origins, or tenants"
        );
    }
    let header = |name: &String| name.parse().ok();
    let access = AccessNow::new(&config, file)?;
    let over = CancellationToken::new();
    let fleet = Arc::new(Fleet::new(&config.region, over.clone()));
    let routing = Routing::new(routing, seed);
    let driver = Arc::new(Driver::new(routing, wishes, fleet.clone(), peers.clone()));
    let residency = Residency::new(&driver, &config, &access.now().rules);
    Ok(Shared {
        driver,
        fleet,
        over,
        near: Upstream::new(&config),
        far: Upstream::far(&config),
        metrics: Metrics::new(),
        pins: Pins::default(),
        ratios: Ratios::new(),
        requests: Bound::new(config.limits.requests),
        bodies: Bound::new(config.limits.bodies.bytes()),
        connections: Bound::new(config.limits.connections),
        draining: AtomicBool::new(false),
        reading,
        key_headers: config.keys.headers.iter().filter_map(header).collect(),
        tenant_header: header(&config.keys.tenant_header),
        access,
        salts: Salts::new(&config, seed),
        residency,
        cors: config.cors.as_ref().map(Cors::new),
        tls,
        admin_tls,
        sessions: Sessions::default(),
        ids: Ids::new(random_seed()),
        explained: Explained::default(),
        registry,
        peers,
        sources: config.discovery.iter().map(|s| Arc::new(Source::new(s))).collect(),
        config,
    })
}

/// A number nobody can guess from outside, from the process's own randomness.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Accepts clients until `shutdown`.
async fn accept(
    shared: &Shared,
    workers: &Workers,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    tokio::select! {
        () = &mut shutdown => return shut(shared),
        () = opening::somewhere_to_go(shared) => {}
    }
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, or a client that was gone at once.
                    tracing::warn!(error = %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            },
        };
        match shared.connections.take(1) {
            Some(permit) => workers.serve(stream, permit),
            None => {
                let limit = shared.connections.most();
                tracing::warn!(limit, "limits.connections is reached; a client was turned away");
            }
        }
    }
    shut(shared);
}

fn shut(shared: &Shared) {
    shared.draining.store(true, Ordering::Relaxed);
    tracing::info!(in_flight = shared.driver.lock().requests.in_flight, "draining");
}

/// For a client of the admin port to shake hands, or to send a head.
const HEAD: Duration = Duration::from_secs(10);
/// Most connections to the admin port.
const ADMIN_CONNECTIONS: usize = 256;

async fn serve_admin(shared: Arc<Shared>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(ADMIN_CONNECTIONS));
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(limit = ADMIN_CONNECTIONS, "too many connections to the admin port");
            continue;
        };
        let (shared, over) = (shared.clone(), shared.over.clone());
        let port = stream.local_addr().map_or(0, |own| own.port());
        // Nor may a client leave its answer where it is.
        let _ = sockopt::set_tcp_user_timeout(&stream, HEAD.as_millis() as u32);
        tokio::spawn(async move {
            let talk = async {
                let caller = Caller { address, port, tls: false, party: None };
                match &shared.admin_tls {
                    None => answer_admin(&shared, stream, caller).await,
                    Some(tls) => {
                        let Some(met) = tls.meet(stream, HEAD).await else { return };
                        let revoked = tls.revoked(&met);
                        let caller = Caller { tls: true, party: met.party, ..caller };
                        tokio::select! {
                            // Looked at first: the list may have changed during the handshake.
                            biased;
                            () = revoked => {
                                tracing::warn!(%address, "a certificate is revoked; its connection to the admin port is closed");
                            }
                            () = answer_admin(&shared, met.stream, caller) => {}
                        }
                    }
                }
            };
            tokio::select! {
                () = talk => {}
                () = over.cancelled() => {}
            }
            drop(place);
        });
    }
}

/// Answers one connection to the admin port.
async fn answer_admin<S>(shared: &Arc<Shared>, stream: S, caller: Caller)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let caller = Arc::new(caller);
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, caller) = (shared.clone(), caller.clone());
        async move {
            let answer = admin::answer(shared, &caller, request).await;
            Ok::<Response<Body>, std::convert::Infallible>(answer)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // An error is the end of the connection.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
