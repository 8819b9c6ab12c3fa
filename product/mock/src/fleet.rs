//! A fleet of recorded engines that tests start, query and kill.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::{Counts, EngineState, LoadFailure, Role};
use crate::leases::Leases;
use crate::socket::serve;
use crate::state::MockState;

/// The start of the recorded engines' ids. The rest differs for each engine, as at each start of a
/// real one.
const ID: &str = "1af57ba3-1427-41ee-b815-";

static STARTED: AtomicU64 = AtomicU64::new(1);

/// Prefill and decode engines that reach each other. They end with the fleet.
pub struct Fleet {
    /// The engines for prefill legs.
    pub prefill: Vec<Engine>,
    /// The engines for decode legs, and for whole requests.
    pub decode: Vec<Engine>,
}

/// One engine.
#[derive(Clone)]
pub struct Engine {
    addr: SocketAddr,
    pub(crate) at: usize,
    pub(crate) state: Arc<Mutex<MockState>>,
    /// Ends the engine.
    pub(crate) dying: CancellationToken,
    /// Its port refuses connections.
    pub(crate) closed: CancellationToken,
}

impl Fleet {
    /// One prefill and one decode engine that fails requests whose KV does not arrive.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn pair() -> std::io::Result<Fleet> {
        Fleet::start(1, 1, LoadFailure::Fail).await
    }

    /// So many prefill and decode engines on ports of this machine.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(
        prefill: usize,
        decode: usize,
        policy: LoadFailure,
    ) -> std::io::Result<Fleet> {
        let roles =
            [Role::Prefill].repeat(prefill).into_iter().chain([Role::Decode].repeat(decode));
        let engines = roles.map(|role| {
            let id = format!("{ID}{:012x}", STARTED.fetch_add(1, Ordering::Relaxed));
            EngineState { role, id, counts: Counts::default(), death: None }
        });
        let state = Arc::new(Mutex::new(MockState {
            engines: engines.collect(),
            policy,
            leases: Leases::default(),
            uncovered: Vec::new(),
            handed: 0,
            answered: Vec::new(),
        }));
        let mut started = Vec::new();
        for at in 0..prefill + decode {
            started.push(Engine::start(at, state.clone()).await?);
        }
        let decode = started.split_off(prefill);
        Ok(Fleet { prefill: started, decode })
    }

    /// The requests that no recording covers, with their differences from the nearest one. Past
    /// 100, further ones are only in [`Counts::uncovered`].
    #[must_use]
    pub fn uncovered(&self) -> Vec<String> {
        let one = self.prefill.iter().chain(&self.decode).next();
        one.map_or_else(Vec::new, |engine| engine.state().uncovered.clone())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for engine in self.prefill.iter().chain(&self.decode) {
            engine.dying.cancel();
        }
    }
}

impl Engine {
    async fn start(at: usize, state: Arc<Mutex<MockState>>) -> std::io::Result<Engine> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let (dying, closed) = (CancellationToken::new(), CancellationToken::new());
        let engine = Engine { addr, at, state, dying, closed };
        tokio::spawn(serve(listener, engine.clone()));
        Ok(engine)
    }

    /// The address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The cause of its end, if it has ended.
    #[must_use]
    pub fn death(&self) -> Option<&'static str> {
        self.state().engines[self.at].death
    }

    /// Its counts at this time.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut state = self.state();
        state.expire(Instant::now());
        let held_blocks = state.leases.held(self.at);
        Counts { held_blocks, ..state.engines[self.at].counts }
    }

    /// Kills it, as a signal would: its connections end, its port refuses further ones, and its
    /// blocks are gone.
    pub async fn kill(&self) {
        self.end("killed");
        self.closed.cancelled().await;
    }

    pub(crate) fn end(&self, cause: &'static str) {
        self.state().end(self.at, cause);
        self.dying.cancel();
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, MockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
