//! A followed peer: its state and its connections.
//!
//! A peer that loses its stream stays in the machine for a while, with an ageing digest. If it was
//! silent for `gone`, or if no request could be sent there for that long, it leaves, and joins
//! again with its first answer. `session.rs` keeps the stream with its news open, `keep_line.rs`
//! the connection for requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderValue;
use http::uri::Authority;
use meridian_base::residency::Place;
use meridian_base::{PeerId, Rng, SiblingId, keyed};
use meridian_config as config;
use meridian_protocol::admin;
use meridian_protocol::intervals::{DOWN, History, UP};
use meridian_protocol::peer::Identity;
use meridian_routing::{Input, PeerSpec};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::line::Line;
use super::models::Models;
use super::sibling::SiblingTraffic;
use super::tls::Tls;
use super::traffic::Tally;
use crate::cause;
use crate::error::TlsError;
use crate::lock::{Mutex, MutexGuard};
use crate::machine::driver::Driver;
use crate::rarely::Rarely;

/// One followed peer.
pub(crate) struct Link {
    pub(crate) id: PeerId,
    pub(crate) identity: Identity,
    pub(super) address: String,
    /// The same as host and port.
    pub(crate) authority: Option<Authority>,
    /// `region/name` as a header value.
    pub(crate) label: HeaderValue,
    /// Whether it is of the same region, so that it gets no requests.
    pub(super) sibling: bool,
    near: bool,
    pub(super) name_hash: u64,
    state: Mutex<State>,
    /// The connection for requests.
    pub(super) line: Line,
    /// Counts of requests forwarded there, and from there.
    pub(crate) sent: Arc<Tally>,
    pub(super) taken: Arc<Tally>,
    /// If it is a sibling, the counts of records in both directions.
    pub(super) traffic: SiblingTraffic,
    /// Whether it has pairs of prefill and decode replicas, by its newest digest. Digests do not say
    /// of which models.
    pub(super) pairs: AtomicBool,
    /// Microseconds of the newest round trip.
    rtt: AtomicU64,
    /// Notified when the peer dials this gateway: it is alive, so a pause before dialling it can
    /// end.
    pub(super) lives: Notify,
    /// Limits log lines about different secrets.
    pub(super) apart: Rarely,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) is_up: bool,
    /// Whether it is in the machine.
    pub(super) is_joined: bool,
    pub(super) prefixes: bool,
    /// Digests passed to the machine, over all streams.
    pub(super) digests: u64,
    pub(super) heard: Option<Instant>,
    /// Places of its usable replicas: what counts of its last report.
    pub(super) places: Vec<Arc<Place>>,
    /// Arrival of the newest digest.
    pub(super) digested: Option<Instant>,
    pub(super) problem: Option<String>,
    /// Cancelled when the peer is gone; requests that wait for it are retried elsewhere.
    lost: CancellationToken,
    /// Its intervals.
    history: History,
}

impl State {
    /// The stream ended.
    pub(super) fn fail(&mut self, problem: String, cause: &str, now_ms: u64) {
        (self.is_up, self.problem) = (false, Some(problem));
        self.history.enter(now_ms, DOWN, cause);
    }

    /// The stream is open; an interval of up begins once requests can be sent, too.
    pub(super) fn connect(&mut self, takes_requests: bool, now_ms: u64) {
        self.is_up = true;
        if takes_requests {
            self.history.enter(now_ms, UP, "connected");
        }
    }
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
            authority: peer.address.parse().ok(),
            sibling: peer.region == tls.identity.region(),
            near: peers.is_near(peer),
            name_hash,
            label: HeaderValue::from_str(&identity.to_string())
                .expect("labels and a slash are a header value"),
            state: Mutex::new(State {
                history: History::of(identity.to_string()),
                ..State::default()
            }),
            identity,
            line: Line::default(),
            sent: Arc::default(),
            taken: Arc::default(),
            traffic: SiblingTraffic::default(),
            pairs: AtomicBool::new(false),
            rtt: AtomicU64::new(0),
            lives: Notify::new(),
            apart: Rarely::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Places of its usable replicas: what counts of its last report.
    pub(crate) fn places(&self) -> Vec<Arc<Place>> {
        self.state().places.clone()
    }

    /// The peer's region.
    pub(crate) fn region(&self) -> &str {
        self.identity.region()
    }

    /// Pauses before the peer is dialled again, or until it dials this gateway. The pause is
    /// random, so many gateways that lost one peer do not return at the same moment.
    pub(super) async fn rest(&self, pause: Duration, rng: &mut Rng) {
        tokio::select! {
            () = sleep(pause.mul_f64(0.5 + rng.unit())) => {}
            () = self.lives.notified() => {}
        }
    }

    /// A URI of this peer. HTTP/2 requires the authority, which TLS has already verified.
    pub(super) fn uri(&self, path: &str) -> String {
        format!("https://{}{path}", self.identity.dns_name())
    }

    /// Its number among the gateways of this region.
    pub(super) fn sibling_id(&self) -> SiblingId {
        SiblingId(self.id.0)
    }

    /// The newest round trip.
    pub(super) fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt.load(Ordering::Relaxed))
    }

    /// A token that is cancelled when the peer is gone.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.state().lost.clone()
    }

    pub(super) fn status(&self, driver: &Driver, models: &Models) -> admin::Peer {
        let from_machine = {
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
            standing: state.history.standing(driver.clock.date_ms()),
            prefixes: state.prefixes,
            digests: state.digests,
            digest_age_ms: state.digested.map(|at| at.elapsed().as_secs_f64() * 1e3),
            models: models.of(self.id),
            sent: self.sent.read(),
            taken: self.taken.read(),
            sibling: self.sibling.then(|| self.traffic.read()),
            problem: state.problem.clone(),
            ..from_machine.unwrap_or_else(|| self.outside(driver))
        }
    }

    /// What is known of it while it is no peer of the machine.
    fn outside(&self, driver: &Driver) -> admin::Peer {
        if !self.sibling {
            return admin::Peer::default();
        }
        let held = driver.lock().routing.held_at(self.sibling_id());
        admin::Peer { rtt_ms: self.rtt().as_secs_f32() * 1e3, held, ..admin::Peer::default() }
    }

    /// Its intervals, at this date.
    pub(super) fn history(&self, now_ms: u64) -> History {
        self.state().history.at(now_ms)
    }

    /// The peer sent something: it joins the machine once requests can be sent to it, which is never the
    /// case for a sibling.
    pub(super) fn heard(&self, driver: &Driver, rtt: Duration) {
        self.rtt.store(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut state = self.state();
        state.heard = Some(Instant::now());
        if self.sibling || !self.line.is_open() {
            return;
        }
        if state.history.state() != Some(UP) {
            state.connect(true, driver.clock.date_ms());
        }
        if !state.is_joined {
            state.is_joined = true;
            let spec = PeerSpec { rtt, near: self.near, name_hash: self.name_hash };
            driver.tell(Input::PeerJoined { id: self.id, spec });
        }
    }

    /// Removes the peer from the machine if it was silent for `gone`, or if no request could be
    /// sent for that long; otherwise returns when to check again.
    fn leave_if_gone(&self, driver: &Driver, gone: Duration) -> Duration {
        let mut state = self.state();
        let silent = state.heard.map_or(Duration::ZERO, |at| at.elapsed());
        let silent = silent.max(self.line.down_for());
        if state.is_joined && silent >= gone {
            state.is_joined = false;
            self.pairs.store(false, Ordering::Relaxed);
            state.digested = None;
            // The stream may be open without a connection for requests.
            let cause = if self.line.is_open() { cause::TIMEOUT } else { cause::UNREACHABLE };
            state.history.enter(driver.clock.date_ms(), DOWN, cause);
            driver.tell(Input::PeerLeft(self.id));
            let lost = std::mem::take(&mut state.lost);
            assert!(!lost.is_cancelled(), "a peer that was gone is gone again");
            lost.cancel();
            tracing::warn!(peer = %self.identity, "a peer is gone");
        }
        gone.saturating_sub(silent).max(gone / 4)
    }
}

/// Removes the peer from the machine whenever it was silent for `gone`; never returns.
pub(super) async fn watch(driver: Arc<Driver>, link: Arc<Link>, gone: Duration) {
    loop {
        let again = link.leave_if_gone(&driver, gone);
        sleep(again).await;
    }
}
