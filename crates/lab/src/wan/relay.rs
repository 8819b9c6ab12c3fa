//! The relay: its links, its routes, the sockets that it listens on, and what is set at run time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use meridian_base::Time;
use meridian_wire::wan as wire;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Figures, Link, Links, WindowSpec, admin, descriptors, pipe, view};
use crate::{Error, Result};

/// A running relay. Dropped, it stops accepting and resets its connections; [`Relay::stop`] waits
/// for that too.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    admin: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// One direction and the regions at its ends.
#[derive(Debug)]
pub(super) struct Directed {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) link: Link,
}

/// A door.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) listen: SocketAddr,
    pub(super) open: AtomicU64,
    target: Mutex<Option<SocketAddr>>,
    /// Its two links' places in the list.
    there: usize,
    back: usize,
}

/// What all connections and the admin port share.
#[derive(Debug)]
pub(super) struct Shared {
    start: Instant,
    links: Mutex<Vec<Directed>>,
    pub(super) routes: Vec<Arc<Route>>,
    /// Tells every connection that a link was changed.
    changed: watch::Sender<()>,
    pub(super) window: WindowSpec,
    pub(super) buffer: usize,
    pub(super) seed: u64,
    serial: AtomicU64,
    room: Arc<Semaphore>,
}

impl Relay {
    /// Listens on every address of a configuration that was read, and relays from then on.
    ///
    /// # Errors
    /// When an address can't be listened on, or there are too few file descriptors.
    pub async fn start(config: &wire::Wan) -> Result<Relay> {
        descriptors::ensure(config.connections, config.routes.len())?;
        let links: Vec<_> = config.all_links().into_iter().map(directed).collect();
        let mut routes = Vec::new();
        let mut listeners = Vec::new();
        for (i, spec) in config.routes.iter().enumerate() {
            let (listener, listen) = listen(format!("routes[{i}].listen"), spec.listen).await?;
            routes.push(Arc::new(Route::new(spec, listen, &links)?));
            listeners.push(listener);
        }
        let (admin_listener, admin) = listen("admin".to_owned(), config.admin).await?;
        let window =
            WindowSpec { start: config.window.start.bytes(), most: config.window.most.bytes() };
        let shared = Arc::new(Shared {
            start: Instant::now(),
            links: Mutex::new(links),
            routes,
            changed: watch::Sender::new(()),
            window,
            buffer: config.buffer.bytes(),
            seed: config.seed,
            serial: AtomicU64::new(0),
            room: Arc::new(Semaphore::new(config.connections.min(Semaphore::MAX_PERMITS))),
        });
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        for (listener, route) in listeners.into_iter().zip(&shared.routes) {
            let door = Door {
                listener,
                route: route.clone(),
                shared: shared.clone(),
                stop: stop.clone(),
                tasks: tasks.clone(),
            };
            tasks.spawn(door.open());
        }
        tasks.spawn(admin::serve(admin_listener, shared.clone(), stop.clone()));
        Ok(Relay { shared, admin, stop, tasks })
    }

    /// Where the admin port is.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where to connect for a route.
    #[must_use]
    pub fn listen(&self, route: &str) -> Option<SocketAddr> {
        self.shared.routes.iter().find(|one| one.name == route).map(|one| one.listen)
    }

    /// The state as the admin port shows it.
    #[must_use]
    pub fn state(&self) -> wire::State {
        view::state(&self.shared)
    }

    /// Changes a link as the admin port does.
    ///
    /// # Errors
    /// When there is no such link or a figure can't be meant.
    pub fn set_link(&self, from: &str, to: &str, set: &wire::SetLink) -> Result<()> {
        let name = format!("{from}/{to}");
        self.shared.set_links(&name, set, |link| link.from == from && link.to == to)
    }

    /// Changes whom a route reaches as the admin port does.
    ///
    /// # Errors
    /// When there is no such route.
    pub fn set_route(&self, name: &str, set: wire::SetRoute) -> Result<()> {
        self.shared.set_route(name, set)
    }

    /// Stops: nothing is accepted any more, every connection is reset, and all of it is over when
    /// this returns.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn directed(spec: wire::LinkSpec) -> Directed {
    let figures = Figures {
        // A configuration that was read has a delay for each of its links.
        delay: spec.delay.map_or(Duration::ZERO, |delay| delay.0),
        jitter: spec.jitter.0,
        rate: spec.rate.0,
    };
    Directed { from: spec.from, to: spec.to, link: Link::new(figures) }
}

async fn listen(field: String, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    bound.await.map_err(|source| Error::Listen { field, address, source })
}

impl Route {
    fn new(spec: &wire::RouteSpec, listen: SocketAddr, links: &[Directed]) -> Result<Route> {
        let place = |from: &str, to: &str| {
            let found = links.iter().position(|link| link.from == from && link.to == to);
            found.ok_or_else(|| no_link(from, to))
        };
        Ok(Route {
            name: spec.name(),
            from: spec.from.clone(),
            to: spec.to.clone(),
            listen,
            open: AtomicU64::new(0),
            target: Mutex::new(spec.target),
            there: place(&spec.from, &spec.to)?,
            back: place(&spec.to, &spec.from)?,
        })
    }

    pub(super) fn target(&self) -> Option<SocketAddr> {
        *self.target.lock().expect("nothing panics while it is held")
    }
}

impl Shared {
    pub(super) fn now(&self) -> Time {
        self.time(Instant::now())
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.start)
    }

    pub(super) fn instant(&self, at: Time) -> Instant {
        self.start + at.since(Time::ZERO)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    /// A number that no other connection has.
    pub(super) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn links(&self) -> MutexGuard<'_, Vec<Directed>> {
        self.links.lock().expect("nothing panics while it is held")
    }

    /// Does something with a route's two links.
    pub(super) fn with<T>(&self, route: &Route, what: impl FnOnce(&mut Links) -> T) -> T {
        let mut links = self.links();
        let [there, back] = links
            .get_disjoint_mut([route.there, route.back])
            .expect("a route joins two regions, so its links are two");
        what(&mut Links { there: &mut there.link, back: &mut back.link })
    }

    /// Changes all links that are meant; at least one must be.
    pub(super) fn set_links(
        &self,
        name: &str,
        set: &wire::SetLink,
        is_meant: impl Fn(&Directed) -> bool,
    ) -> Result<()> {
        for (field, span) in [("delay", set.delay), ("jitter", set.jitter)] {
            if let Some(span) = span.filter(|span| !wire::is_delay(*span)) {
                let (value, remedy) = (format!("{:?}", span.0), wire::DELAY_REMEDY.to_owned());
                return Err(Error::Setting { field, value, remedy });
            }
        }
        let now = self.now();
        let mut found = false;
        for Directed { from, to, link } in self.links().iter_mut().filter(|link| is_meant(link)) {
            found = true;
            let old = link.figures();
            link.set(
                now,
                Figures {
                    delay: set.delay.map_or(old.delay, |delay| delay.0),
                    jitter: set.jitter.map_or(old.jitter, |jitter| jitter.0),
                    rate: set.rate.map_or(old.rate, |rate| rate.0),
                },
            );
            if let Some(state) = set.state {
                link.turn(now, view::from_wire(state));
            }
            tracing::info!(from, to, state = ?link.state(), figures = ?link.figures(), "link set");
        }
        self.changed.send_replace(());
        if found { Ok(()) } else { Err(self.unknown_link(name)) }
    }

    fn unknown_link(&self, name: &str) -> Error {
        let links = self.links();
        let known: Vec<_> = links.iter().map(|link| format!("{}/{}", link.from, link.to)).collect();
        let remedy = format!("there is none of that name; use one of {}", known.join(", "));
        Error::Setting { field: "link", value: name.to_owned(), remedy }
    }

    pub(super) fn set_route(&self, name: &str, set: wire::SetRoute) -> Result<()> {
        let Some(route) = self.routes.iter().find(|route| route.name == name) else {
            let known: Vec<_> = self.routes.iter().map(|route| route.name.as_str()).collect();
            let remedy = format!("there is none of that name; use one of {}", known.join(", "));
            return Err(Error::Setting { field: "route", value: name.to_owned(), remedy });
        };
        if set.target.port() == 0 || set.target == route.listen {
            let remedy = "give the address that the other region's program listens on".to_owned();
            return Err(Error::Setting { field: "target", value: set.target.to_string(), remedy });
        }
        *route.target.lock().expect("nothing panics while it is held") = Some(set.target);
        tracing::info!(route = name, target = %set.target, "route set");
        Ok(())
    }
}

fn no_link(from: &str, to: &str) -> Error {
    let remedy = "add it to links, or name regions whose delay is known".to_owned();
    Error::Setting { field: "link", value: format!("{from}/{to}"), remedy }
}

/// Accepts a route's connections.
struct Door {
    listener: TcpListener,
    route: Arc<Route>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Door {
    async fn open(self) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((near, _)) => self.admit(near),
                Err(error) => {
                    tracing::warn!(route = self.route.name, %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }

    fn admit(&self, near: TcpStream) {
        let Ok(permit) = self.shared.room.clone().try_acquire_owned() else {
            tracing::warn!(route = self.route.name, "`connections` is reached; one was reset");
            let _ = near.set_zero_linger();
            return;
        };
        let (shared, route, stop) = (self.shared.clone(), self.route.clone(), self.stop.clone());
        self.tasks.spawn(relay(near, shared, route, stop, permit));
    }
}

async fn relay(
    near: TcpStream,
    shared: Arc<Shared>,
    route: Arc<Route>,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    route.open.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = pipe::run(near, shared, route.clone(), stop).await {
        tracing::warn!(route = route.name, %error, "a connection could not be relayed");
    }
    route.open.fetch_sub(1, Ordering::Relaxed);
}
