//! One replica in the driver: its addresses, what discovery found, and its history.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::uri::Authority;
use meridian_base::residency::Place;
use meridian_base::{Duration, ReplicaId};
use meridian_protocol::admin::AddReplica;
use meridian_protocol::engines::Engine;
use meridian_protocol::intervals::{DOWN, History, REMOVED, Standing, UP};
use meridian_protocol::legs::{Protocol, Rank};
use meridian_protocol::signals::Transfers;
use meridian_routing::{Role, State};
use tokio_util::sync::CancellationToken;

use crate::cause;
use crate::facts::name::ReplicaName;
use crate::fault::AttemptError;
use crate::lock::{Mutex, RwLock};
use crate::machine::clock::Clock;
use crate::replicas::dial::Dial;
use crate::replicas::drains::Drains;
use crate::replicas::life::Life;
use crate::replicas::listing::Listing;
use crate::replicas::rtt::RoundTrip;
use crate::replicas::standing;

/// The cause of intervals in which a replica answers.
pub(super) const ANSWERED: &str = "answered";
/// The state of a replica that drains.
const DRAINING: &str = "draining";

/// One replica.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: ReplicaId,
    /// Its name for people. Unlike the id, it is never reused while the gateway runs.
    pub(crate) name: ReplicaName,
    /// Its host and port, which identify it.
    pub(crate) authority: Authority,
    /// The address to connect to from here.
    pub(crate) dial: Arc<Dial>,
    pub(crate) spec: AddReplica,
    /// Configured round trip to its region; zero if unknown.
    pub(crate) known_rtt: Duration,
    /// The round trip to it, as measured by probes.
    pub(crate) round_trip: RoundTrip,
    /// Whether it is alive, for the requests that wait for it.
    pub(crate) life: Life,
    /// Its region as a header value.
    pub(crate) region: HeaderValue,
    /// Its place, for residency rules.
    pub(crate) place: Arc<Place>,
    /// Its name as a header value.
    pub(crate) label: HeaderValue,
    /// The result of discovery.
    pub(crate) found: RwLock<Found>,
    /// Its intervals, and the date.
    pub(super) history: Arc<Mutex<History>>,
    pub(super) clock: Clock,
    pub(super) trouble: Mutex<Trouble>,
    /// Its engine's newest counts of transfers of KV.
    pub(super) transfers: Mutex<Transfers>,
    /// When its list of models was last compared, and the sign that it changed.
    pub(crate) listing: Listing,
    /// The reasons for which it drains; it serves while there is none.
    pub(crate) drains: Drains,
    /// Ends its discovery and probes.
    pub(crate) gone: CancellationToken,
}

/// The result of discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) engine: Option<Engine>,
    pub(crate) models: Vec<String>,
    /// The models that are LoRA adapters.
    pub(crate) adapters: Vec<String>,
    pub(crate) kv_tokens: Option<u64>,
    pub(crate) slots: Option<u32>,
    /// The longest contexts of its models, in tokens, as far as it names them.
    pub(crate) contexts: Vec<(String, u32)>,
    /// Its software's version, if its role needs it.
    pub(crate) version: Option<String>,
    /// For a protocol that names them: its engines, by data-parallel rank.
    pub(crate) ranks: Vec<Rank>,
    /// The body of its `/v1/models`.
    pub(crate) page: Bytes,
}

/// Why a replica does not answer the gateway's own requests; none if it does.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    discovery: Option<String>,
    probe: Option<AttemptError>,
}

impl Member {
    /// Notes the result of its newest discovery; true for a failure that is not known yet.
    pub(crate) fn discovered(&self, failed: Option<String>) -> bool {
        let mut trouble = self.trouble.lock();
        let what = |text: &Option<String>| text.as_deref().map(cause::undated);
        let news = failed.is_some() && what(&failed) != what(&trouble.discovery);
        trouble.discovery = failed;
        news
    }

    /// Notes the result of its newest probe.
    pub(crate) fn probed(&self, failed: Option<AttemptError>) {
        self.trouble.lock().probe = failed;
    }

    /// The problem to show.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock();
        let probe = trouble.probe.as_ref().map(|error| &error.message);
        trouble.discovery.as_ref().or(probe).cloned()
    }

    /// Begins an interval in a state, unless it is in that state or has left.
    pub(crate) fn enters(&self, state: &str, cause: &str) {
        let mut history = self.history.lock();
        if !self.gone.is_cancelled() {
            history.enter(self.clock.date_ms(), state, cause);
        }
    }

    /// The machine has marked it as down, after its newest probe. A replica that drains keeps that
    /// state.
    pub(crate) fn goes_down(&self) {
        let cause = self.trouble.lock().probe.as_ref().map_or(cause::FAILED, |error| error.cause);
        if self.history.lock().state() != Some(DRAINING) {
            self.enters(DOWN, cause);
        }
    }

    /// The machine has marked it as alive again.
    pub(crate) fn comes_up(&self) {
        if self.history.lock().state() == Some(DOWN) {
            self.enters(standing::word(State::Up, !self.found.read().models.is_empty()), ANSWERED);
        }
    }

    /// Whether its present interval is up.
    pub(super) fn is_noted_up(&self) -> bool {
        self.history.lock().state() == Some(UP)
    }

    /// The cause of its present interval, if that is of this state.
    pub(crate) fn cause_of(&self, state: &str) -> Option<String> {
        let history = self.history.lock();
        let now = history.intervals.back().filter(|now| now.state == state)?;
        Some(now.cause.clone())
    }

    /// Its present interval, and its downtime.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.history.lock().standing(self.clock.date_ms())
    }

    /// Its last interval begins, and its tasks end.
    pub(super) fn leaves(&self) {
        let mut history = self.history.lock();
        let drained = history.intervals.back().filter(|now| now.state == DRAINING);
        let cause = drained.map_or_else(|| REMOVED.to_owned(), |now| now.cause.clone());
        history.enter(self.clock.date_ms(), REMOVED, &cause);
        self.gone.cancel();
    }

    /// Its engine's counts of transfers of KV; none if it reports none.
    pub(crate) fn transfers(&self) -> Option<Transfers> {
        Some(*self.transfers.lock()).filter(|transfers| !transfers.is_empty())
    }

    /// Replaces its engine's counts of transfers of KV; returns the former ones.
    pub(crate) fn transferred(&self, transfers: Transfers) -> Transfers {
        std::mem::replace(&mut *self.transfers.lock(), transfers)
    }

    /// Its port, or its scheme's usual one.
    pub(crate) fn port(&self) -> u16 {
        let usual = if self.spec.url.starts_with("https://") { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(usual)
    }

    /// Round trip to it: zero within the region.
    pub(crate) fn rtt(&self) -> Duration {
        if self.known_rtt.is_zero() { self.round_trip.rtt() } else { self.known_rtt }
    }

    pub(crate) fn found(&self) -> Found {
        self.found.read().clone()
    }

    /// Whether its list has a model.
    pub(crate) fn lists(&self, model: &str) -> bool {
        self.found.read().models.iter().any(|listed| listed == model)
    }

    pub(crate) fn engine(&self) -> Option<Engine> {
        self.found.read().engine
    }

    /// The body of its model list; none before discovery.
    pub(crate) fn models_page(&self) -> Option<Bytes> {
        let page = self.found.read().page.clone();
        (!page.is_empty()).then_some(page)
    }

    /// Whether it only computes prompts.
    pub(crate) fn is_prefill(&self) -> bool {
        self.spec.role.0 == Role::Prefill
    }

    /// How it hands over KV; none if it takes whole requests only, or if no protocol is known.
    pub(crate) fn transfer(&self) -> Option<&'static Protocol> {
        self.transfer_of(self.engine())
    }

    /// The same, for this engine behind it.
    pub(crate) fn transfer_of(&self, engine: Option<Engine>) -> Option<&'static Protocol> {
        self.spec.protocol(engine)
    }

    /// Host and port of its bootstrap server, for a protocol with one.
    pub(crate) fn bootstrap(&self, protocol: &Protocol) -> Option<(&str, u16)> {
        let given = self.spec.bootstrap.as_deref().and_then(meridian_protocol::admin::bootstrap);
        let host = self.authority.host().trim_matches(['[', ']']);
        given.or(protocol.bootstrap_port.map(|port| (host, port)))
    }

    /// Its engine does not serve a model of its list: discovery reads the list again. Given models
    /// stay.
    pub(crate) fn lacks_model(&self) {
        if self.spec.models.is_empty() {
            self.listing.changed();
        }
    }

    /// Whether it separates its prefix cache by `cache_salt`. Other engines may refuse an unknown
    /// field.
    pub(crate) fn reads_salts(&self) -> bool {
        self.engine().is_some_and(|engine| engine.reads_cache_salt)
    }

    /// Whether it reports its load in a response header on request.
    pub(crate) fn speaks_orca(&self) -> bool {
        self.engine().is_some_and(|engine| engine.reports_load)
    }
}
