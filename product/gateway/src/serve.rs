//! Listens, accepts connections, and shuts down in order.

mod beyond;
mod build;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::beyond::Beyond;
use self::build::Gateway;
use crate::descriptors::check_descriptors;
use crate::error::Error;
use crate::inputs::in_force::Given;
use crate::inputs::oidc;
use crate::registry::Addresses;
use crate::replicas::probes;
use crate::request::arrive::entry::Requests;
use crate::threads::ServingThreads;
use crate::{admin, lock, opening, peers, registry, reload};

/// The addresses of a running gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Address for clients.
    pub listen: SocketAddr,
    /// Address for operators.
    pub admin: SocketAddr,
    /// Address for peers, if configured.
    pub peers: Option<SocketAddr>,
    /// Whether clients use TLS.
    pub tls: bool,
    /// Whether operators use TLS.
    pub admin_tls: bool,
}

/// Serves until `shutdown` completes, then waits for the requests in flight. If the configuration
/// comes with its file, most changes of that take effect without a restart.
///
/// With `threads` above 0, that many threads serve clients, each with its own runtime, and the
/// caller's runtime runs the machine's timer, probes and the admin port. With 0 everything runs on
/// the caller's runtime, whose clock may be paused.
///
/// # Errors
/// See [`Error`]; all of them occur before the first request.
pub async fn serve(
    given: impl Into<Given>,
    threads: usize,
    on_ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Given { config, file, reload, commit } = given.into();
    check_descriptors(&config)?;
    let listener = listen("listen", config.listen).await?;
    let admin_listener = listen("admin", config.admin).await?;
    let peer_listener = match &config.peers {
        Some(peers) => Some(listen("peers.listen", peers.listen).await?),
        None => None,
    };
    let (wishes, wished) = mpsc::unbounded_channel();
    let gateway = Gateway::build(config, commit, file.as_deref(), wishes)?;
    let admin = gateway.admin();
    // However this future ends, it stops everything that it started.
    let _over = gateway.region().over.clone().drop_guard();
    gateway.sources.configured(gateway.config.replicas.clone(), &gateway.config.discovery);
    let workers = ServingThreads::start(&gateway.plane, threads)?;
    let ready = Ready {
        listen: address(&listener)?,
        admin: address(&admin_listener)?,
        peers: peer_listener.as_ref().map(address).transpose()?,
        tls: gateway.config.tls.is_some(),
        admin_tls: gateway.admin_tls.is_some(),
    };
    let mut background = JoinSet::new();
    let driver = gateway.region().driver.clone();
    background.spawn(async move { driver.keep_time().await });
    background.spawn(probes::run(Arc::new(gateway.prober()), wished));
    background.spawn(reload::keep(gateway.reloaded(), reload));
    background.spawn(oidc::keep(gateway.kept.issuers.clone()));
    let (tls, over) = (gateway.admin_tls.clone(), gateway.region().over.clone());
    let page = admin.page.clone();
    background.spawn(async move { page.run().await });
    background.spawn(admin::port::serve(admin, tls, admin_listener, over));
    follow(&gateway, ready, peer_listener, &mut background);
    on_ready(ready);
    tokio::select! {
        () = accept(&gateway, &workers, listener, shutdown) => {}
        () = lock::abort_on_panic(&mut background) => {}
    }
    let leaving = async {
        if let Some(registry) = &gateway.registry {
            registry::leave(registry).await;
        }
    };
    let peers = async {
        if let Some(peers) = &gateway.plane.peers {
            let settings = gateway.plane.inputs.config.now().settings.clone();
            peers.drain(settings.timeouts.drain.0).await;
        }
    };
    tokio::join!(leaving, workers.drain(), peers);
    write_records(&gateway).await;
    Ok(())
}

/// Starts the tasks for peers, the control plane and the sources of replicas.
fn follow(
    gateway: &Gateway,
    ready: Ready,
    peer_listener: Option<TcpListener>,
    tasks: &mut JoinSet<()>,
) {
    if let (Some(peers), Some(listener)) = (&gateway.plane.peers, peer_listener) {
        let requests = Arc::new(Requests::new(&gateway.plane, gateway.near.clone()));
        let residency = &gateway.plane.inputs.residency;
        peers::start(peers, gateway.region(), residency, listener, requests, tasks);
    }
    if let Some(registry) = &gateway.registry {
        let addresses = Addresses { clients: ready.listen, peers: ready.peers };
        registry::start(registry, addresses, gateway.here(), tasks);
    }
    let sources = gateway.sources.clone();
    tasks.spawn(async move { sources.keep().await });
}

/// Ends the requests that are left, and writes the records of all.
async fn write_records(gateway: &Gateway) {
    let records = gateway.plane.records.clone();
    gateway.region().over.cancel();
    // Each request ends at the next poll of its connection.
    for _ in 0..100 {
        if gateway.region().driver.lock().requests.in_flight == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _ = tokio::task::spawn_blocking(move || records.stop()).await;
}

async fn listen(field: &'static str, addr: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(addr).await.map_err(|source| Error::Listen { field, addr, source })
}

fn address(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener
        .local_addr()
        .map_err(|source| Error::Io { what: "reading a listener's address", source })
}

/// Accepts clients until `shutdown`.
async fn accept(
    gateway: &Gateway,
    workers: &ServingThreads,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    tokio::select! {
        () = &mut shutdown => return shut(gateway),
        () = somewhere_to_go(gateway) => {}
    }
    let beyond = Beyond::new(&gateway.plane);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, or the client has already left.
                    tracing::warn!(error = %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            },
        };
        let in_force = gateway.plane.inputs.config.now();
        match in_force.limits.connections.take(1) {
            Some(permit) => workers.serve(stream, permit),
            None => beyond.serve(stream, &in_force),
        }
    }
    shut(gateway);
}

/// Waits for a replica or a peer, if the gateway learns of them from other processes.
async fn somewhere_to_go(gateway: &Gateway) {
    let found_elsewhere = gateway.registry.is_some() || gateway.plane.peers.is_some();
    if gateway.config.replicas.is_empty() && found_elsewhere {
        opening::somewhere_to_go(&gateway.region().fleet, gateway.plane.peers.as_deref()).await;
    }
}

fn shut(gateway: &Gateway) {
    gateway.region().draining.begin();
    tracing::info!(in_flight = gateway.region().driver.lock().requests.in_flight, "draining");
}
