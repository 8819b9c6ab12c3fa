//! Gateways of other regions: they follow this one, and it follows them.
//!
//! There is a stream for each direction of interest. Whoever wants to know of a region dials its
//! gateway (`link.rs`, `session.rs`) and is told of it (`follow.rs`), so that news of a peer come
//! over the same path that requests would take there: where that is broken, the peer is silent and
//! gets none. Both ends show a certificate of the fleet (`tls.rs`), on one port (`port.rs`), and the
//! digest that all followers get is taken from the machine once (`bulletin.rs`).
//!
//! Requests go over a connection of their own (`line.rs`, `forward.rs`) and come in on the same port
//! (`inbound.rs`), where they are answered as any other.
//!
//! Deliberately not here: which request goes where. That is the machine's choice.

mod bulletin;
mod codec;
mod dial;
mod follow;
mod forward;
mod handover;
mod inbound;
mod line;
mod link;
mod listed;
mod models;
mod port;
mod refused;
mod session;
mod tls;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::uri::Authority;
use meridian_base::{ModelId, PeerId, keyed};
use meridian_routing::Holdings;
use meridian_wire::config::Gateway as Config;
use meridian_wire::peer::{Hello, Identity};
use meridian_wire::{admin, config};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::machine::driver::Driver;
use crate::shared::Shared;

pub(crate) use bulletin::Bulletin;
pub(crate) use forward::Outgoing;
use handover::Handover;
pub(crate) use inbound::Report;
pub(crate) use link::Link;
use listed::Listed;
pub(crate) use models::Models;
pub(crate) use port::CONNECTIONS;
use refused::Refusals;
pub(crate) use tls::Tls;
pub use tls::TlsError;
pub(crate) use tls::files;
pub(crate) use traffic::{Leg, LegEnd, Tally};

/// What the gateway has for its peers; made once.
pub(crate) struct Peers {
    pub(crate) config: config::Peers,
    hello: Hello,
    /// Whether the policy in force reads prompts in the blocks of the hello.
    compares: AtomicBool,
    tls: Tls,
    bulletin: Bulletin,
    links: Vec<Arc<Link>>,
    pub(crate) models: Models,
    handover: Handover,
    /// Gateways that may connect.
    listed: Listed,
    refusals: Refusals,
    /// What gateways send on that this one does not follow.
    others: Arc<Tally>,
    /// Requests that peers sent on and that have not ended.
    inbound: TaskTracker,
}

impl Peers {
    /// Reads the certificates; none where the configuration names no peers.
    pub(crate) fn load(
        config: &Config,
        seed: u64,
        block_bytes: Option<usize>,
        policy: &str,
    ) -> Result<Option<Peers>, TlsError> {
        let Some(peers) = config.peers.clone() else { return Ok(None) };
        let tls = Tls::load(&peers, &config.region)?;
        let block_bytes = block_bytes.and_then(|b| u32::try_from(b).ok()).unwrap_or(0);
        let hello = Hello::new(tls.identity.clone(), seed, block_bytes, policy);
        let ids = (0..).map(PeerId);
        let link = |(id, peer): (_, &config::Peer)| Link::new(id, peer, &peers, &tls).map(Arc::new);
        let links = ids.zip(&peers.gateways).map(link).collect::<Result<_, _>>()?;
        let listed = Listed::new(&tls.identity, &peers);
        Ok(Some(Peers {
            listed,
            refusals: Refusals::default(),
            config: peers,
            hello,
            compares: AtomicBool::new(true),
            tls,
            bulletin: Bulletin::default(),
            links,
            models: Models::default(),
            handover: Handover::default(),
            others: Arc::default(),
            inbound: TaskTracker::new(),
        }))
    }

    /// Another policy decides, which reads prompts in these blocks, or in none. Prefix hashes of
    /// other blocks than the hello said mean nothing to peers, nor theirs to this gateway: while it
    /// decides, none are told and none are taken in.
    pub(crate) fn read_in(&self, block_bytes: Option<usize>) {
        let told = usize::try_from(self.hello.block_bytes).ok();
        let compares = block_bytes.is_some() && block_bytes == told;
        self.compares.store(compares, Ordering::Relaxed);
    }

    fn compares(&self) -> bool {
        self.compares.load(Ordering::Relaxed)
    }

    /// This gateway's name, as its certificate says it.
    pub(crate) fn own_name(&self) -> &str {
        self.tls.identity.gateway()
    }

    /// The registry names these gateways, by region and name: they may connect.
    pub(crate) fn register(&self, gateways: impl Iterator<Item = (String, String)>) {
        self.listed.register(gateways);
    }

    /// Something may have changed that peers want to know of.
    pub(crate) fn touch(&self) {
        self.bulletin.touch();
    }

    /// Asks a peer for held requests.
    pub(crate) fn steal(&self, from: PeerId, count: u32) {
        if let Some(link) = self.links.get(from.index()) {
            link.steal(count);
        }
    }

    /// This gateway was given a replica: peers may know what it holds.
    pub(crate) fn given(&self, replica: &Authority) {
        self.links.iter().for_each(|link| link.ask(replica));
    }

    /// A replica leaves; who gets it may ask.
    pub(crate) fn leaves(&self, replica: &Authority, holdings: Holdings) {
        if self.compares() {
            self.handover.keep(replica, holdings);
        }
    }

    /// Reads the certificates' files again where they changed, or `now` in any case.
    pub(crate) fn look(&self, now: bool) -> meridian_tls::Look {
        self.tls.look(now)
    }

    /// The peers that may serve a model, a bit each.
    pub(crate) fn serving(&self, model: ModelId) -> u64 {
        let others = u64::MAX.checked_shl(self.links.len() as u32).unwrap_or(0);
        self.models.serving(model) & !others
    }

    pub(crate) fn link(&self, id: PeerId) -> Option<&Arc<Link>> {
        self.links.get(id.index())
    }

    /// The peer as `region/name`.
    pub(crate) fn name(&self, id: PeerId) -> String {
        self.link(id).map_or_else(|| id.to_string(), |link| link.identity.to_string())
    }

    /// Where requests are counted that a gateway sends on to here.
    fn taken(&self, from: &Identity) -> &Arc<Tally> {
        let link = self.links.iter().find(|link| link.identity == *from);
        link.map_or(&self.others, |link| &link.taken)
    }

    /// How each stands, for the status page. Those that are not followed are one row, once one of
    /// them has sent something.
    pub(crate) fn status(&self, driver: &Driver) -> Vec<admin::Peer> {
        let mut rows: Vec<_> =
            self.links.iter().map(|link| link.status(driver, &self.models)).collect();
        rows.iter_mut().for_each(|row| row.prefixes &= self.compares());
        let taken = self.others.read();
        if taken.begun > 0 {
            let name = "others".to_owned();
            let state = "not followed".to_owned();
            rows.push(admin::Peer { name, state, taken, ..admin::Peer::default() });
        }
        rows
    }

    /// Waits until everything that peers sent on has ended, within bounds.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.inbound.close();
        if tokio::time::timeout(patience, self.inbound.wait()).await.is_err() {
            let left = self.inbound.len();
            tracing::warn!(left, "timeouts.drain is over; what peers sent on is cut short");
        }
    }
}

/// Everything that goes on with peers, until the gateway is over.
pub(crate) fn start(shared: &Arc<Shared>, listener: TcpListener, tasks: &mut JoinSet<()>) {
    let Some(peers) = &shared.peers else { return };
    tasks.spawn(port::serve(shared.clone(), peers.clone(), listener));
    tasks.spawn(bulletin::publish(shared.clone(), peers.clone()));
    for link in &peers.links {
        let seed = keyed(shared.reading.seed, link.identity.dns_name().as_bytes());
        tasks.spawn(session::keep(shared.clone(), peers.clone(), link.clone()));
        tasks.spawn(line::keep(peers.clone(), link.clone(), seed));
        tasks.spawn(link::watch(shared.clone(), peers.clone(), link.clone()));
    }
}

/// How long a peer may take for each step of getting to know each other.
const PATIENCE: Duration = Duration::from_secs(5);
