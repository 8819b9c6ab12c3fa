//! Serving threads, each with its own runtime and its own connections to replicas.
//!
//! A request stays on the thread of its client's connection from its first byte to its last, so no
//! piece of an answer wakes another thread. A new connection goes to the thread with the fewest.

use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::certificates::ClientTls;
use crate::error::Error;
use crate::http::connection::{Serving, converse};
use crate::http::limits::{Bound, Permit};
use crate::replicas::upstream::Upstream;
use crate::request::arrive::client::ClientService;
use crate::request::plane::DataPlane;

/// Idle time after which TCP keepalive checks a client.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves connections on the current runtime.
pub(crate) struct Server {
    plane: Arc<DataPlane>,
    clients: Arc<ClientService>,
    /// Notifies connections of the gateway's shutdown; closed once none of them is left.
    closing: watch::Sender<()>,
}

impl Server {
    fn new(plane: Arc<DataPlane>) -> Server {
        let near = Upstream::new(plane.inputs.config.clone());
        let clients = Arc::new(ClientService::new(&plane, near));
        Server { plane, clients, closing: watch::Sender::default() }
    }

    fn serve(&self, stream: TcpStream, permit: Permit) {
        // Without it a small event waits for the client's acknowledgement, up to 40 ms.
        let _ = stream.set_nodelay(true);
        // A client that stops reading, or vanishes silently, is given up like a silent replica: its
        // answer would occupy a place there forever.
        let in_force = self.plane.inputs.config.now();
        let settings = in_force.settings.clone();
        let patience = settings.timeouts.idle.0.as_millis();
        let _ = sockopt::set_tcp_user_timeout(&stream, u32::try_from(patience).unwrap_or(u32::MAX));
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
        let ip = stream.peer_addr().map(|a| a.ip().to_string()).unwrap_or_default();
        let serving = Serving {
            answers: self.clients.clone(),
            closing: self.closing.subscribe(),
            client: self.plane.inputs.reading.hash(Some(ip.as_bytes())),
            first_by: Instant::now() + settings.timeouts.client.0,
            settings,
        };
        let over = self.plane.region.over.clone();
        let tls = in_force.client_tls.as_deref().map(ClientTls::acceptor);
        tokio::spawn(async move {
            // In the task itself, which would have room twice for a future that it is given.
            let served = async {
                match tls {
                    // Boxed: the state of TLS is not part of every connection's task.
                    Some(tls) => Box::pin(secured(stream, tls, serving)).await,
                    None => converse(stream, serving).await,
                }
            };
            tokio::select! {
                () = served => {}
                () = over.cancelled() => {}
            }
            drop(permit);
        });
    }

    /// Waits for requests in flight, for a limited time.
    async fn drain(self) {
        let patience = self.plane.inputs.config.now().settings.timeouts.drain.0;
        let _ = self.closing.send(());
        if tokio::time::timeout(patience, self.closing.closed()).await.is_err() {
            let left = self.plane.region.driver.lock().requests.in_flight;
            tracing::warn!(left, "timeouts.drain is over; running requests are cut off");
        }
    }
}

async fn secured(stream: TcpStream, tls: TlsAcceptor, serving: Serving<ClientService>) {
    match timeout_at(serving.first_by, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, serving).await,
        Ok(Err(error)) => tracing::debug!(error = %error, "no TLS"),
        Err(_) => tracing::debug!("no TLS handshake within timeouts.client"),
    }
}

/// The serving threads.
pub(crate) enum ServingThreads {
    /// The caller's own runtime.
    Here(Box<Server>),
    /// Separate threads.
    Threads(Vec<Thread>),
}

pub(crate) struct Thread {
    hand: mpsc::UnboundedSender<(StdStream, Permit, Permit)>,
    load: Bound,
    join: JoinHandle<()>,
}

impl ServingThreads {
    /// Starts `threads` threads; with 0 the caller's runtime serves.
    pub(crate) fn start(plane: &Arc<DataPlane>, threads: usize) -> Result<ServingThreads, Error> {
        if threads == 0 {
            return Ok(ServingThreads::Here(Box::new(Server::new(plane.clone()))));
        }
        (0..threads)
            .map(|n| Thread::start(plane.clone(), n))
            .collect::<Result<_, _>>()
            .map(ServingThreads::Threads)
    }

    /// Serves a new client.
    pub(crate) fn serve(&self, stream: TcpStream, permit: Permit) {
        match self {
            ServingThreads::Here(here) => here.serve(stream, permit),
            ServingThreads::Threads(threads) => {
                let least = threads.iter().min_by_key(|t| t.load.used());
                let thread = least.expect("there is at least one thread");
                let Some(load) = thread.load.take(1) else { return };
                // A stream that can't be handed over is closed by dropping it.
                if let Ok(stream) = stream.into_std() {
                    let _ = thread.hand.send((stream, permit, load));
                }
            }
        }
    }

    /// Waits for requests in flight, for a limited time.
    pub(crate) async fn drain(self) {
        match self {
            ServingThreads::Here(here) => here.drain().await,
            ServingThreads::Threads(threads) => {
                let joins: Vec<_> = threads.into_iter().map(|t| t.join).collect();
                let all = tokio::task::spawn_blocking(|| {
                    joins.into_iter().for_each(|j| {
                        let _ = j.join();
                    });
                });
                let _ = all.await;
            }
        }
    }
}

impl Thread {
    fn start(plane: Arc<DataPlane>, n: usize) -> Result<Thread, Error> {
        let (hand, handed) = mpsc::unbounded_channel();
        let failed = |source| Error::Io { what: "starting a serving thread", source };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let join = std::thread::Builder::new()
            .name(format!("serve-{n}"))
            .spawn(move || runtime.block_on(work(plane, handed)))
            .map_err(failed)?;
        Ok(Thread { hand, load: Bound::new(usize::MAX / 2), join })
    }
}

/// A timer set before all others makes the runtime wake itself, and requests set many. A timer that
/// is always due earlier saves a system call per request.
async fn tick() {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The main function of a thread: serves the connections it receives, then drains.
async fn work(
    plane: Arc<DataPlane>,
    mut handed: mpsc::UnboundedReceiver<(StdStream, Permit, Permit)>,
) {
    let server = Server::new(plane);
    tokio::spawn(tick());
    while let Some((stream, permit, load)) = handed.recv().await {
        if let Ok(stream) = TcpStream::from_std(stream) {
            server.serve(stream, permit.and(load));
        }
    }
    server.drain().await;
}
