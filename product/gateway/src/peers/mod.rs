//! Gateways of other regions: they follow this one, and it follows them. Gateways of the same region
//! use the same streams to tell each other of their requests (`sibling.rs`), and nothing else of this.
//!
//! There is one stream per direction. A gateway that wants another region's state dials that
//! region's gateway (`link.rs`, `session.rs`) and receives it (`follow.rs`). A peer's news
//! therefore takes the same path as requests to it: if the path is broken, the peer is silent and
//! gets no requests. Both sides show a certificate of the fleet (`tls.rs`), on one port
//! (`port.rs`), and the digest for all followers is read from the machine once (`bulletin.rs`).
//!
//! Requests use a separate connection (`line.rs`, kept open by `keep_line.rs`; `forward.rs`) and
//! arrive on the same port (`inbound.rs`), where they are answered like any other.
//!
//! Deliberately not here: the choice of where a request goes. The routing machine makes it.

pub(crate) mod all;
mod bulletin;
mod channel;
mod codec;
mod dial;
mod discovery;
mod error_chain;
mod follow;
pub(crate) mod forward;
pub(crate) mod inbound;
mod keep_line;
mod line;
pub(crate) mod link;
mod links;
mod listed;
mod models;
pub(crate) mod port;
mod refused;
pub(crate) mod report;
mod reported;
mod session;
mod sibling;
mod sightings;
pub(crate) mod tls;
pub(crate) mod traffic;
mod welcome;

use std::sync::Arc;

use meridian_base::keyed;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use self::all::Peers;
use self::discovery::Finder;
use self::inbound::Forwards;
use self::port::Port;
use crate::inputs::residency::Residency;
use crate::replicas::region::Region;

/// Starts all peer tasks, which run until the gateway ends. `forwards` handles forwarded requests.
pub(crate) fn start<F: Forwards>(
    peers: &Arc<Peers>,
    region: &Arc<Region>,
    residency: &Arc<Residency>,
    listener: TcpListener,
    forwards: F,
    tasks: &mut JoinSet<()>,
) {
    let port = Port { peers: peers.clone(), region: region.clone(), forwards };
    tasks.spawn(port::serve(port, listener));
    let (publisher, of) = (peers.clone(), region.clone());
    tasks.spawn(async move {
        let Peers { bulletin, outbox, config, .. } = &*publisher;
        let pauses = (config.push.0, config.beat.0);
        bulletin.publish(outbox, pauses, &of.driver, &of.draining).await;
    });
    if peers.has_siblings() {
        peers.note_siblings();
        let (region, welcomed) = (region.clone(), peers.clone());
        tasks.spawn(async move { welcome::limit(&region, &welcomed).await });
        tasks.spawn(sibling::collect_units(peers.outbox.clone(), peers.rates.clone()));
    }
    if let Some(source) = peers.config.siblings.clone() {
        let (region, residency, peers) = (region.clone(), residency.clone(), peers.clone());
        tasks.spawn(discovery::keep(Finder { region, residency, peers }, source));
    }
    for link in peers.links.listed() {
        let seed = keyed(region.seed, link.identity.dns_name().as_bytes());
        tasks.spawn(session::keep(region.clone(), residency.clone(), peers.clone(), link.clone()));
        if link.sibling {
            continue;
        }
        tasks.spawn(keep_line::keep(peers.clone(), link.clone(), seed));
        tasks.spawn(link::watch(region.driver.clone(), link.clone(), peers.config.gone.0));
    }
}
