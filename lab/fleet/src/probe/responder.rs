//! The responder: a process on each server that sends and receives on orders.
//!
//! It listens at the given addresses only, and a peer must prove that it knows the token. Time,
//! streams, bytes, lines and connections have limits, and a peer that is silent or slow is given up.
//! It ends itself when it was not used for a while.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::order::{Order, echo};
use super::stream::receive;
use super::words::{LINE, Role, Token, greet, read_line, write_line};
use super::{MOST_CONNECTIONS, PATIENCE};
use crate::{Error, Result};

/// What a responder needs.
pub struct Spec {
    /// The addresses to listen at.
    pub listen: Vec<SocketAddr>,
    /// The token; none is needed on loopback addresses.
    pub token: Option<Token>,
    /// It ends after this time without a use.
    pub idle: Duration,
}

/// A responder that listens.
pub struct Responder {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    idle: Duration,
}

struct Shared {
    token: Token,
    /// The zero of reports.
    epoch: Instant,
    connections: AtomicUsize,
    most: usize,
    used: Mutex<Used>,
    changed: Condvar,
}

/// Uses by peers that know the token; others do not keep a responder alive.
struct Used {
    now: usize,
    last: Instant,
    ended: bool,
}

impl Responder {
    /// Listens.
    ///
    /// # Errors
    ///
    /// Without a token beyond loopback, or if an address is not available.
    pub fn start(spec: &Spec) -> Result<Responder> {
        if spec.token.as_ref().is_none_or(Token::is_empty)
            && let Some(open) = spec.listen.iter().find(|address| !address.ip().is_loopback())
        {
            return Err(Error::Setting {
                field: "--listen",
                value: open.to_string(),
                remedy: "beyond loopback a token is required: set MERIDIAN_PROBE_TOKEN, the same \
                         for all responders and for plan verify"
                    .to_owned(),
            });
        }
        let token = spec.token.clone().map_or_else(|| Token::new(""), Ok)?;
        let used = Used { now: 0, last: Instant::now(), ended: false };
        let shared = Arc::new(Shared {
            token,
            epoch: Instant::now(),
            connections: AtomicUsize::new(0),
            most: MOST_CONNECTIONS * spec.listen.len(),
            used: Mutex::new(used),
            changed: Condvar::new(),
        });
        let mut addresses = Vec::new();
        for address in &spec.listen {
            let failed =
                |source| Error::Listen { field: "--listen".to_owned(), address: *address, source };
            let listener = TcpListener::bind(address).map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?);
            let shared = shared.clone();
            std::thread::spawn(move || accept(&listener, &shared));
        }
        Ok(Responder { shared, addresses, idle: spec.idle })
    }

    /// The addresses that it listens at.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until it was not used for its time, or until [`Ender::end`]. Connections end with the
    /// process.
    pub fn wait(&self) {
        let mut used = self.shared.used();
        while !used.ended {
            let left = match used.now {
                0 => self.idle.saturating_sub(used.last.elapsed()),
                _ => self.idle,
            };
            if left.is_zero() {
                return;
            }
            let changed = self.shared.changed.wait_timeout(used, left);
            used = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A value that ends it from another thread.
    #[must_use]
    pub fn ender(&self) -> Ender {
        Ender(self.shared.clone())
    }
}

/// Ends a responder.
pub struct Ender(Arc<Shared>);

impl Ender {
    /// Makes [`Responder::wait`] return.
    pub fn end(&self) {
        self.0.used().ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Too many open files, for example; others may close.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let slot = Slot::take(shared);
        if let Some(slot) = slot {
            // A peer that breaks the protocol is disconnected; it gets no answer.
            std::thread::spawn(move || serve(stream, &slot.0).ok());
        }
    }
}

/// One of the connections.
struct Slot(Arc<Shared>);

impl Slot {
    fn take(shared: &Arc<Shared>) -> Option<Slot> {
        let before = shared.connections.fetch_add(1, Ordering::Relaxed);
        let slot = Slot(shared.clone());
        (before < shared.most).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a use while it lasts.
struct InUse<'a>(&'a Shared);

impl<'a> InUse<'a> {
    fn new(shared: &'a Shared) -> InUse<'a> {
        shared.used().now += 1;
        InUse(shared)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut used = self.0.used();
        used.now -= 1;
        used.last = Instant::now();
        self.0.changed.notify_all();
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let role = greet(&mut stream, &shared.token)?;
    let _in_use = InUse::new(shared);
    match role {
        Role::Data => receive(stream, shared.epoch),
        Role::Echo => echo(stream),
        Role::Order => order(stream, shared),
    }
}

/// Carries out one order.
fn order(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    write_line(&mut stream, "ready")?;
    let line = read_line(&mut stream, LINE, PATIENCE)?;
    let answer = match Order::read(&line) {
        None => "failed it is not an order within the limits".to_owned(),
        Some(order) => order
            .carry_out(&shared.token)
            .unwrap_or_else(|error| format!("failed {}", error.to_string().replace('\n', " "))),
    };
    write_line(&mut stream, &answer)
}
