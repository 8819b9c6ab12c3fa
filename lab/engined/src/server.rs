//! Sockets: accept, serve, and on shutdown let the running requests finish.

use crate::{Error, Options, Service};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A connection ends without an answer, as its engine was told to.
#[derive(Debug, thiserror::Error)]
#[error("closed without an answer")]
struct Closed;

/// Serves an engine until `shutdown` is ready and the running requests are done (or
/// [`Options::drain`] is over). Calls `on_ready` with the address once connections are accepted.
///
/// # Errors
/// If the options are inconsistent or the address is not available.
pub async fn serve(
    options: Options,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future,
) -> Result<(), Error> {
    serve_service(Service::start(options)?, on_ready, shutdown).await
}

/// As [`serve`], for an engine that has been started.
///
/// # Errors
/// If the address is not available.
pub async fn serve_service(
    service: Service,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future,
) -> Result<(), Error> {
    let options = service.options();
    let (address, drain) = (options.listen, options.drain);
    let connections = Arc::new(Semaphore::new(options.max_connections));
    let listen = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    on_ready(listener.local_addr().map_err(listen)?);
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accept = async {
            // The semaphore is never closed, so a permit always comes.
            let permit = connections.clone().acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            _ = &mut shutdown => break,
            accepted = accept => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = serve_connection(stream, service.clone(), &graceful);
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: they come back as connections end.
                tracing::warn!(%error, "cannot accept a connection; raise the open files limit");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were still running at the end of the drain time");
    }
    Ok(())
}

fn serve_connection(
    stream: TcpStream,
    service: Service,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let requests = AtomicU32::new(0);
    let handler = service_fn(move |request| {
        let service = service.clone();
        let closes = service.closes(requests.fetch_add(1, Ordering::Relaxed));
        async move { if closes { Err(Closed) } else { Ok(service.handle(request).await) } }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(60))
        .serve_connection(TokioIo::new(stream), handler);
    let watched = graceful.watch(connection);
    async move {
        // A client that disconnects in mid-stream is not an error.
        if let Err(error) = watched.await {
            tracing::debug!(%error, "connection ended");
        }
    }
}
