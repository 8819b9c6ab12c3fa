//! The relay: listens on the address of each route and relays the connections it accepts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config as wire;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::routes::{Directed, Route, Shared, directed};
use super::{admin, descriptors, pipe, view};
use crate::{Error, Result};

/// A running relay. When dropped, it stops accepting and resets its connections; [`Relay::stop`]
/// also waits for that.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    admin: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Relay {
    /// Listens on every address of a checked configuration, and starts relaying.
    ///
    /// # Errors
    /// If an address is not available, or there are too few file descriptors.
    pub async fn start(config: &wire::Wan) -> Result<Relay> {
        descriptors::ensure(config.connections, config.routes.len())?;
        let links: Vec<Directed> = config.all_links().into_iter().map(directed).collect();
        let mut routes = Vec::new();
        let mut listeners = Vec::new();
        for (i, spec) in config.routes.iter().enumerate() {
            let (listener, listen) = listen(format!("routes[{i}].listen"), spec.listen).await?;
            routes.push(Arc::new(Route::new(spec, listen, &links)?));
            listeners.push(listener);
        }
        let (admin_listener, admin) = listen("admin".to_owned(), config.admin).await?;
        let shared = Arc::new(Shared::new(config, links, routes));
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

    /// Address of the admin port.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Address of a route.
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
    /// If there is no such link or a value is implausible.
    pub fn set_link(&self, from: &str, to: &str, set: &wire::SetLink) -> Result<()> {
        let name = format!("{from}/{to}");
        self.shared.set_links(&name, set, |link| link.from == from && link.to == to)
    }

    /// Changes the target of a route as the admin port does.
    ///
    /// # Errors
    /// If there is no such route.
    pub fn set_route(&self, name: &str, set: wire::SetRoute) -> Result<()> {
        self.shared.set_route(name, set)
    }

    /// Stops: accepts nothing more, resets every connection, and returns when all of them have
    /// ended.
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

async fn listen(field: String, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    bound.await.map_err(|source| Error::Listen { field, address, source })
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
        let Some(permit) = self.shared.admit() else {
            tracing::warn!(
                route = self.route.name,
                "the limit `connections` is reached; a connection was reset"
            );
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
