//! Gateways of other regions: they follow this one, and it follows them.
//!
//! There is a stream for each direction of interest. Whoever wants to know of a region dials its
//! gateway (`link.rs`) and is told of it (`follow.rs`), so that news of a peer come over the same
//! path that requests would take there: where that is broken, the peer is silent and gets none.
//! Both ends show a certificate of the fleet (`tls.rs`), on one port (`port.rs`), and the digest
//! that all followers get is taken from the machine once (`bulletin.rs`).
//!
//! Deliberately not here: forwarded requests. They are to come in on the same port, beside the
//! stream, and no request that is taken in today may be sent on to a peer.

mod bulletin;
mod codec;
mod follow;
mod link;
mod port;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use meridian_base::PeerId;
use meridian_wire::config::Gateway as Config;
use meridian_wire::peer::Hello;
use meridian_wire::{admin, config};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::driver::Driver;
use crate::shared::Shared;

pub(crate) use bulletin::Bulletin;
pub(crate) use link::Link;
pub(crate) use port::CONNECTIONS;
pub(crate) use tls::Tls;
pub use tls::TlsError;

/// What the gateway has for its peers; made once.
pub(crate) struct Peers {
    pub(crate) config: config::Peers,
    hello: Hello,
    tls: Tls,
    bulletin: Bulletin,
    links: Vec<Arc<Link>>,
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
        Ok(Some(Peers { config: peers, hello, tls, bulletin: Bulletin::default(), links }))
    }

    /// This gateway's name, as its certificate says it.
    pub(crate) fn name(&self) -> &str {
        self.tls.identity.gateway()
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

    /// How each stands, for the status page.
    pub(crate) fn status(&self, driver: &Driver) -> Vec<admin::Peer> {
        self.links.iter().map(|link| link.status(driver)).collect()
    }
}

/// Everything that goes on with peers, until the gateway is over.
pub(crate) fn start(shared: &Arc<Shared>, listener: TcpListener, tasks: &mut JoinSet<()>) {
    let Some(peers) = &shared.peers else { return };
    tasks.spawn(port::serve(shared.clone(), peers.clone(), listener));
    tasks.spawn(bulletin::publish(shared.driver.clone(), peers.clone()));
    for link in &peers.links {
        tasks.spawn(link::keep(shared.clone(), peers.clone(), link.clone()));
        tasks.spawn(link::watch(shared.clone(), peers.clone(), link.clone()));
    }
}

/// How long a peer may take for each step of getting to know each other.
const PATIENCE: Duration = Duration::from_secs(5);
