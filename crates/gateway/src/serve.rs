//! Listening, accepting, and going down in order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use meridian_base::keyed;
use meridian_routing::Routing;
use meridian_wire::config::Gateway as Config;
use meridian_wire::openai::Reading;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::body::Body;
use crate::driver::Driver;
use crate::error::Error;
use crate::explain::Explained;
use crate::fleet::Fleet;
use crate::limits::{Bound, check_descriptors};
use crate::metrics::Metrics;
use crate::pins::Pins;
use crate::shared::{Ids, Ratios, Shared};
use crate::upstream::Upstream;
use crate::{admin, discover, probe, proxy};

/// Where a gateway listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Clients connect here.
    pub listen: SocketAddr,
    /// Operators connect here.
    pub admin: SocketAddr,
}

/// Serves until `shutdown` completes, then lets the requests in flight end.
///
/// # Errors
/// See [`Error`]; all of them before the first request.
pub async fn serve(
    config: Config,
    on_ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    check_descriptors(config.limits.connections, config.limits.replicas)?;
    let listener = listen("listen", config.listen).await?;
    let admin_listener = listen("admin", config.admin).await?;
    let (wishes, wished) = mpsc::unbounded_channel();
    let shared = Arc::new(build(config, wishes)?);
    // However this future ends, nothing that it started outlives it.
    let _over = shared.over.clone().drop_guard();
    for spec in shared.config.replicas.clone() {
        // The configuration was checked: no twin, no bad URL.
        if let Err(error) = discover::join(&shared, spec) {
            tracing::error!(error = %error, "replica left out");
        }
    }
    let ready = Ready { listen: address(&listener)?, admin: address(&admin_listener)? };
    let driver = shared.driver.clone();
    let mut background = JoinSet::new();
    background.spawn(async move { driver.keep_time().await });
    background.spawn(probe::run(shared.clone(), wished));
    background.spawn(serve_admin(shared.clone(), admin_listener));
    on_ready(ready);
    let graceful = accept(shared.clone(), listener, shutdown).await;
    drain(&shared, graceful).await;
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
    wishes: mpsc::UnboundedSender<meridian_base::ReplicaId>,
) -> Result<Shared, Error> {
    let routing = config.routing()?;
    let spec = (routing.policy.index)(&routing.params);
    let seed = match &config.secret {
        Some(secret) => keyed(0, secret.as_bytes()),
        None => random_seed(),
    };
    let reading = Reading {
        seed,
        block_bytes: spec.map_or(64, |s| s.block_bytes),
        head_bytes: (routing.policy.head_bytes)(&routing.params),
        tenant_scope: None,
    };
    let header = |name: &String| name.parse().ok();
    let over = CancellationToken::new();
    Ok(Shared {
        driver: Arc::new(Driver::new(Routing::new(routing, seed), wishes)),
        fleet: Arc::new(Fleet::new(over.clone())),
        over,
        upstream: Upstream::new(config.timeouts.connect.0),
        metrics: Metrics::new(),
        pins: Pins::default(),
        ratios: Ratios::new(),
        requests: Bound::new(config.limits.requests),
        bodies: Bound::new(config.limits.bodies.bytes()),
        connections: Bound::new(config.limits.connections),
        draining: AtomicBool::new(false),
        reading,
        follow_replies: Shared::follows(spec.map(|s| s.insert)),
        key_headers: config.keys.headers.iter().filter_map(header).collect(),
        tenant_header: header(&config.keys.tenant_header),
        ids: Ids::new(random_seed()),
        explained: Explained::default(),
        config,
    })
}

/// A number nobody can guess from outside, from the process's own randomness.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn builder(shared: &Shared) -> Builder<TokioExecutor> {
    let headers = shared.config.limits.headers.bytes();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.timeouts.client.0)
        .max_buf_size(headers.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(headers).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// Accepts clients until `shutdown`.
async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> GracefulShutdown {
    let graceful = GracefulShutdown::new();
    let builder = Arc::new(builder(&shared));
    let mut shutdown = std::pin::pin!(shutdown);
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
        let Some(permit) = shared.connections.take(1) else {
            tracing::warn!(
                limit = shared.connections.most(),
                "limits.connections is reached; a client was turned away"
            );
            continue;
        };
        client(&shared, &builder, stream, permit, &graceful);
    }
    shared.draining.store(true, Ordering::Relaxed);
    graceful
}

fn client(
    shared: &Arc<Shared>,
    builder: &Builder<TokioExecutor>,
    stream: TcpStream,
    permit: crate::limits::Permit,
    graceful: &GracefulShutdown,
) {
    // Without it a small event waits for the client's acknowledgement, up to 40 ms.
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().map_or(0, |a| shared.hash(Some(a.ip().to_string().as_bytes())));
    let spoke = Arc::new(AtomicBool::new(false));
    let late = silent(shared.config.timeouts.client.0, spoke.clone());
    let over = shared.over.clone();
    let shared = shared.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        spoke.store(true, Ordering::Relaxed);
        let shared = shared.clone();
        async move {
            Ok::<Response<Body>, std::convert::Infallible>(
                proxy::answer(shared, request, peer).await,
            )
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        tokio::select! {
            ended = watched => {
                // Errors here are the client's end of the line: hang-ups, timeouts, no HTTP.
                if let Err(error) = ended {
                    tracing::debug!(error = %error, "connection ended");
                }
            }
            () = late => tracing::debug!("no request within timeouts.client"),
            () = over.cancelled() => {}
        }
        drop(permit);
    });
}

/// Ends when a client has not sent its first request in time. hyper bounds the head of a request,
/// but not the bytes before it that tell HTTP/1 from HTTP/2.
async fn silent(patience: Duration, spoke: Arc<AtomicBool>) {
    tokio::time::sleep(patience).await;
    if spoke.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Waits for what is in flight, within bounds.
async fn drain(shared: &Shared, graceful: GracefulShutdown) {
    let patience = shared.config.timeouts.drain.0;
    tracing::info!(in_flight = shared.driver.lock().requests.in_flight, "draining");
    if tokio::time::timeout(patience, graceful.shutdown()).await.is_err() {
        let left = shared.driver.lock().requests.in_flight;
        tracing::warn!(left, "timeouts.drain is over; what is left is cut short");
    }
}

async fn serve_admin(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (shared, over) = (shared.clone(), shared.over.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let shared = shared.clone();
            async move {
                Ok::<Response<Body>, std::convert::Infallible>(admin::answer(shared, request).await)
            }
        });
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
            tokio::select! {
                _ = http.serve_connection(TokioIo::new(stream), service) => {}
                () = over.cancelled() => {}
            }
        });
    }
}
