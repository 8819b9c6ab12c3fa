//! The driver: sockets, and nothing that weighs one answer against another.
//!
//! `hickory-server` has a server for this, and it is not used for four reasons. It logs the address
//! of each client at the level info. It sets no limit to the number of connections, and starts a
//! task for each datagram. It answers messages that it can't read itself, so they can't be counted.
//! And its queries do not show the errors of a client subnet that RFC 7871 tells servers to reject.
//! What is left, two loops around [`respond()`], is shorter than its adapter would be.
//!
//! A socket that listens on all addresses of a machine answers over UDP from the one that the
//! system chooses, which may not be the one that was asked. On a machine with several addresses,
//! bind one socket to each.

mod tcp;
mod udp;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::counters::Counters;
use crate::respond::{Reply, State, Transport, respond};

/// Longest query in bytes. One with every known option has a few hundred.
const LONGEST_QUERY: usize = 4096;
/// Pause after an error of a socket, such as a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Sockets that the caller has bound, usually one of each kind to the same port.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For datagrams.
    pub udp: Vec<UdpSocket>,
    /// For connections.
    pub tcp: Vec<TcpListener>,
}

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections at once; more are closed when they are accepted.
    pub connections: usize,
    /// Most connections of one client at once: of one address of IPv4, or one /64 of IPv6.
    pub per_client: usize,
    /// A connection is closed if no whole query arrives, or an answer is not taken, for so long.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 256, per_client: 16, idle: Duration::from_secs(10) }
    }
}

/// What the tasks of all sockets share.
struct Shared {
    state: watch::Receiver<Arc<State>>,
    counters: Arc<Counters>,
    turn: AtomicU64,
}

impl Shared {
    fn respond(&self, query: &[u8], source: IpAddr, transport: Transport) -> Option<Reply> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let state = self.state.borrow().clone();
        let reply = respond(&state, query, source, transport, turn);
        self.counters.count(reply.as_ref());
        reply
    }
}

/// Answers queries until `shutdown` completes. A new state counts from the next query on; if its
/// sender is gone, the last one stays.
pub async fn serve(
    sockets: Sockets,
    state: watch::Receiver<Arc<State>>,
    counters: Arc<Counters>,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let shared = Arc::new(Shared { state, counters, turn: AtomicU64::new(0) });
    let mut tasks = JoinSet::new();
    for socket in sockets.udp {
        tasks.spawn(udp::answer(shared.clone(), socket));
    }
    let places = Arc::new(tcp::Places::new(limits));
    for listener in sockets.tcp {
        tasks.spawn(tcp::accept(shared.clone(), listener, places.clone()));
    }
    shutdown.await;
    // Dropping the set ends the tasks, and those of connections with them.
}
