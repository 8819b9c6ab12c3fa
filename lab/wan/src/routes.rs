//! Links and routes with their state, and changes of them at run time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::config as wire;
use meridian_base::Time;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Figures, Link, Links, WindowSpec, view};
use crate::{Error, Result};

/// One direction and the regions at its ends.
#[derive(Debug)]
pub(super) struct Directed {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) link: Link,
}

/// A route.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) listen: SocketAddr,
    pub(super) open: AtomicU64,
    target: Mutex<Option<SocketAddr>>,
    /// Indices of its two links in the list.
    there: usize,
    back: usize,
}

/// State shared by all connections and the admin port.
#[derive(Debug)]
pub(super) struct Shared {
    start: Instant,
    links: Mutex<Vec<Directed>>,
    pub(super) routes: Vec<Arc<Route>>,
    /// Notifies every connection that a link has changed.
    changed: watch::Sender<()>,
    pub(super) window: WindowSpec,
    pub(super) buffer: usize,
    pub(super) seed: u64,
    serial: AtomicU64,
    room: Arc<Semaphore>,
}

pub(super) fn directed(spec: wire::LinkSpec) -> Directed {
    let figures = Figures {
        // A checked configuration has a delay for each of its links.
        delay: spec.delay.map_or(Duration::ZERO, |delay| delay.0),
        jitter: spec.jitter.0,
        rate: spec.rate.0,
    };
    Directed { from: spec.from, to: spec.to, link: Link::new(figures) }
}

impl Route {
    pub(super) fn new(
        spec: &wire::RouteSpec,
        listen: SocketAddr,
        links: &[Directed],
    ) -> Result<Route> {
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
    pub(super) fn new(config: &wire::Wan, links: Vec<Directed>, routes: Vec<Arc<Route>>) -> Shared {
        let window =
            WindowSpec { start: config.window.start.bytes(), most: config.window.most.bytes() };
        Shared {
            start: Instant::now(),
            links: Mutex::new(links),
            routes,
            changed: watch::Sender::new(()),
            window,
            buffer: config.buffer.bytes(),
            seed: config.seed,
            serial: AtomicU64::new(0),
            room: Arc::new(Semaphore::new(config.connections.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// A permit for one more connection; `None` at the configured limit.
    pub(super) fn admit(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_owned().ok()
    }

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

    /// Runs `what` with a route's two links.
    pub(super) fn with<T>(&self, route: &Route, what: impl FnOnce(&mut Links) -> T) -> T {
        let mut links = self.links();
        let [there, back] = links
            .get_disjoint_mut([route.there, route.back])
            .expect("a route joins two regions, so its links are two");
        what(&mut Links { there: &mut there.link, back: &mut back.link })
    }

    /// Changes all matching links; there must be at least one.
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
        let remedy = format!("no such name; use one of {}", known.join(", "));
        Error::Setting { field: "link", value: name.to_owned(), remedy }
    }

    pub(super) fn set_route(&self, name: &str, set: wire::SetRoute) -> Result<()> {
        let Some(route) = self.routes.iter().find(|route| route.name == name) else {
            let known: Vec<_> = self.routes.iter().map(|route| route.name.as_str()).collect();
            let remedy = format!("no such name; use one of {}", known.join(", "));
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
