//! A peer that is followed: how it stands, and what leads to it.
//!
//! The peer stays in the machine for a while without a stream, its digest growing old; when it was
//! not heard of for that long, or no request could go there for that long, it leaves, and joins
//! again with its first answer. `session.rs` keeps the stream up on which it tells of itself,
//! `keep_line.rs` the connection over which requests go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderValue;
use meridian_base::{PeerId, Rng, keyed};
use meridian_routing::residency::Place;
use meridian_routing::{Input, PeerSpec};
use meridian_wire::peer::Identity;
use meridian_wire::{admin, config};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::line::Line;
use super::models::Models;
use super::tls::{Tls, TlsError};
use super::traffic::Tally;
use crate::lock::{Mutex, MutexGuard};
use crate::machine::driver::Driver;

/// One peer that is followed.
pub(crate) struct Link {
    pub(crate) id: PeerId,
    pub(super) identity: Identity,
    pub(super) address: String,
    /// `region/name` as a header value.
    pub(crate) label: HeaderValue,
    near: bool,
    pub(super) name_hash: u64,
    state: Mutex<State>,
    /// Over which requests go there.
    pub(super) line: Line,
    /// Requests that went there, and that came from there.
    pub(crate) sent: Arc<Tally>,
    pub(super) taken: Arc<Tally>,
    /// Microseconds of the newest round trip.
    rtt: AtomicU64,
    /// The peer dialled here, so it lives: who waits to dial it again need not wait.
    pub(super) lives: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) is_up: bool,
    /// In the machine.
    pub(super) is_joined: bool,
    pub(super) prefixes: bool,
    /// Digests handed to the machine, over all streams.
    pub(super) digests: u64,
    pub(super) heard: Option<Instant>,
    /// Where its usable replicas stand, as it last told.
    pub(super) places: Vec<Arc<Place>>,
    /// When the newest digest came.
    pub(super) digested: Option<Instant>,
    pub(super) problem: Option<String>,
    /// Cancelled when the peer is gone: what waits for it goes elsewhere.
    lost: CancellationToken,
}

impl Link {
    pub(super) fn new(
        id: PeerId,
        peer: &config::Peer,
        peers: &config::Peers,
        tls: &Tls,
    ) -> Result<Link, TlsError> {
        let identity = Identity::new(tls.identity.fleet(), &peer.region, &peer.name)?;
        if identity == tls.identity {
            return Err(TlsError::Itself(identity));
        }
        let name_hash = keyed(0, identity.dns_name().as_bytes());
        Ok(Link {
            id,
            address: peer.address.clone(),
            near: peers.is_near(peer),
            name_hash,
            label: HeaderValue::from_str(&identity.to_string())
                .expect("labels and a slash are a header value"),
            identity,
            state: Mutex::default(),
            line: Line::default(),
            sent: Arc::default(),
            taken: Arc::default(),
            rtt: AtomicU64::new(0),
            lives: Notify::new(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Where its usable replicas stand, as it last told.
    pub(crate) fn places(&self) -> Vec<Arc<Place>> {
        self.state().places.clone()
    }

    /// The peer's region.
    pub(crate) fn region(&self) -> &str {
        self.identity.region()
    }

    /// Waits before it is dialled again, or until it dials here. Many gateways that lost one peer do
    /// not come back at the same moment.
    pub(super) async fn rest(&self, pause: Duration, rng: &mut Rng) {
        tokio::select! {
            () = sleep(pause.mul_f64(0.5 + rng.unit())) => {}
            () = self.lives.notified() => {}
        }
    }

    /// A path at this peer. HTTP/2 wants the authority too, and TLS has settled whose it is.
    pub(super) fn uri(&self, path: &str) -> String {
        format!("https://{}{path}", self.identity.dns_name())
    }

    /// The newest round trip.
    pub(super) fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt.load(Ordering::Relaxed))
    }

    /// Ends when the peer is gone.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.state().lost.clone()
    }

    pub(super) fn status(&self, driver: &Driver, models: &Models) -> admin::Peer {
        let told = {
            let inner = driver.lock();
            inner.routing.peers().row(self.id).map(|row| admin::Peer {
                rtt_ms: row.rtt_ms,
                held: row.held,
                eligible: row.eligible,
                usable: row.usable,
                utilisation: row.utilisation,
                ..admin::Peer::default()
            })
        };
        let state = self.state();
        admin::Peer {
            name: self.identity.gateway().to_owned(),
            region: self.identity.region().to_owned(),
            address: self.address.clone(),
            state: if state.is_up {
                "up"
            } else if state.is_joined {
                "lost"
            } else {
                "gone"
            }
            .to_owned(),
            prefixes: state.prefixes,
            digests: state.digests,
            digest_age_ms: state.digested.map(|at| at.elapsed().as_secs_f64() * 1e3),
            models: models.of(self.id),
            sent: self.sent.read(),
            taken: self.taken.read(),
            problem: state.problem.clone(),
            ..told.unwrap_or_default()
        }
    }

    /// It was heard of: it is in the machine from now on, once requests can go there.
    pub(super) fn heard(&self, driver: &Driver, rtt: Duration) {
        self.rtt.store(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut state = self.state();
        state.heard = Some(Instant::now());
        if !state.is_joined && self.line.is_open() {
            state.is_joined = true;
            let spec = PeerSpec { rtt, near: self.near, name_hash: self.name_hash };
            driver.tell(Input::PeerJoined { id: self.id, spec });
        }
    }

    /// Takes it out of the machine if it was not heard of for `gone`, or if requests could not go
    /// there for as long; else says when to look again.
    fn leave_if_gone(&self, driver: &Driver, gone: Duration) -> Duration {
        let mut state = self.state();
        let silent = state.heard.map_or(Duration::ZERO, |at| at.elapsed());
        let silent = silent.max(self.line.down_for());
        if state.is_joined && silent >= gone {
            state.is_joined = false;
            state.digested = None;
            driver.tell(Input::PeerLeft(self.id));
            std::mem::take(&mut state.lost).cancel();
            tracing::warn!(peer = %self.identity, "a peer is gone");
        }
        gone.saturating_sub(silent).max(gone / 4)
    }
}

/// Takes the peer out of the machine when it was not heard of for `gone`, for ever.
pub(super) async fn watch(driver: Arc<Driver>, link: Arc<Link>, gone: Duration) {
    loop {
        let again = link.leave_if_gone(&driver, gone);
        sleep(again).await;
    }
}
