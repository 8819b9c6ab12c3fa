//! All peers of this gateway: those that it follows, and the state shared with those that follow
//! it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use meridian_base::residency::Residence;
use meridian_base::{ModelId, PeerId};
use meridian_config as config;
use meridian_config::Gateway as Config;
use meridian_protocol::admin;
use meridian_protocol::intervals::History;
use meridian_protocol::peer::{Hello, Identity};
use meridian_protocol::registry::Gateway as Registered;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::bulletin::Bulletin;
use super::dial::{PATIENCE, dial};
use super::link::Link;
use super::links::LinkTable;
use super::listed::Listed;
use super::models::Models;
use super::refused::Refusals;
use super::sightings::{self, Sightings};
use super::tls::{Tls, files};
use super::traffic::Tally;
use crate::error::TlsError;
use crate::inputs::rate::RatesByTenant;
use crate::inputs::residency::Residency;
use crate::machine::driver::Driver;
use crate::machine::outbox::Outbox;
use crate::replicas::handover::Handover;

/// The links to gateways of other regions, one bit each.
fn others(links: &[Arc<Link>]) -> u64 {
    let bits = links.iter().filter(|link| !link.sibling).map(|link| 1_u64 << link.id.0);
    bits.fold(0, |all, bit| all | bit)
}

/// The state for all peers; made once.
pub(crate) struct Peers {
    pub(crate) config: config::Peers,
    pub(super) hello: Hello,
    pub(super) tls: Tls,
    /// Messages from the machine to these tasks.
    pub(crate) outbox: Arc<Outbox>,
    pub(super) bulletin: Bulletin,
    pub(super) links: LinkTable,
    pub(super) sightings: Sightings,
    /// Those to which requests may be forwarded, one bit each.
    serve: u64,
    pub(crate) models: Models,
    pub(crate) handover: Arc<Handover>,
    /// The limits of tenants, which siblings share.
    pub(crate) rates: Arc<RatesByTenant>,
    /// Gateways that may connect.
    pub(super) listed: Listed,
    pub(super) refusals: Refusals,
    /// Counts forwards from gateways that this one does not follow.
    others: Arc<Tally>,
    /// Forwarded requests of peers that have not ended.
    pub(super) inbound: TaskTracker,
}

impl Peers {
    /// Reads the certificates, or the secret; none if the configuration has no peers.
    pub(crate) fn load(
        config: &Config,
        seed: u64,
        block_bytes: Option<usize>,
        policy: &str,
    ) -> Result<Option<Peers>, TlsError> {
        // A check also comes here with a file whose secret cannot be read, which it reports by itself.
        let proves = |peers: &config::Peers| peers.secret.is_some() || files(peers).is_some();
        let Some(peers) = config.peers.clone().filter(proves) else { return Ok(None) };
        let control_name = config.control.as_ref().and_then(|control| control.name.as_deref());
        let tls = Tls::load(&peers, &config.region, control_name)?;
        let block_bytes = block_bytes.and_then(|b| u32::try_from(b).ok()).unwrap_or(0);
        let hello = Hello::new(tls.identity.clone(), seed, block_bytes, policy);
        let ids = (0..).map(PeerId);
        let link = |(id, peer): (_, &config::Peer)| Link::new(id, peer, &peers, &tls).map(Arc::new);
        let links = ids.zip(&peers.gateways).map(link).collect::<Result<Vec<_>, _>>()?;
        let serve = others(&links);
        let links = LinkTable::new(links, peers.siblings.is_some());
        let announced_block_bytes = usize::try_from(hello.block_bytes).unwrap_or(0);
        let listed = Listed::new(&tls.identity, &peers);
        Ok(Some(Peers {
            listed,
            refusals: Refusals::default(),
            config: peers,
            hello,
            tls,
            rates: Arc::default(),
            outbox: Arc::new(Outbox::new(links.places())),
            bulletin: Bulletin::default(),
            handover: Arc::new(Handover::new(
                announced_block_bytes,
                links.listed().len(),
                links.places(),
            )),
            serve,
            links,
            sightings: Sightings::default(),
            models: Models::default(),
            others: Arc::default(),
            inbound: TaskTracker::new(),
        }))
    }

    /// Connects to each peer once; the peers with the field that names each, and why one cannot be
    /// reached.
    pub(crate) async fn meet(&self) -> Vec<(String, Result<(), String>)> {
        let mut met = Vec::new();
        for link in self.links.listed() {
            let dialled = timeout(PATIENCE, dial(&self.tls, &link.identity, &link.address)).await;
            let result = match dialled {
                Ok(dialled) => dialled.map(drop).map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            met.push((format!("peers.gateways: {}", link.identity), result));
        }
        if let Some(source) = &self.config.siblings {
            met.extend(sightings::meet(&self.tls, source).await);
        }
        met
    }

    /// Whether a peer has pairs of prefill and decode replicas.
    pub(crate) fn have_pairs(&self) -> bool {
        self.links.listed().iter().any(|link| link.pairs.load(Ordering::Relaxed))
    }

    /// This gateway's name, from its certificate.
    pub(crate) fn own_name(&self) -> &str {
        self.tls.identity.gateway()
    }

    /// Adopts the settings of another file that concern the peers' port.
    pub(crate) fn configured(&self, peers: &config::Peers) {
        self.listed.accept(&peers.accept);
    }

    /// Allows the gateways in the registry to connect, and finds those of this region.
    pub(crate) fn register<'a>(
        &self,
        gateways: impl Iterator<Item = (&'a String, &'a Registered)> + Clone,
    ) {
        self.sightings.register(&self.tls.identity, gateways.clone());
        self.listed.register(gateways.map(|(name, one)| (one.region.clone(), name.clone())));
    }

    /// When the certificate in force expires, in seconds since 1970.
    pub(crate) fn expires(&self) -> u64 {
        self.tls.expires()
    }

    /// Polls the certificate files and reloads them if they changed; with `now`, in any case.
    pub(crate) fn look(&self, now: bool) -> meridian_tls::Look {
        self.tls.look(now)
    }

    /// The peers that may serve a model, one bit each.
    pub(crate) fn serving(&self, model: ModelId) -> u64 {
        self.models.serving(model) & self.serve
    }

    /// Notes how many siblings are connected, for the limits that they share.
    pub(super) fn note_siblings(&self) {
        let siblings: Vec<_> = self.links.all().into_iter().filter(|link| link.sibling).collect();
        let connected = siblings.iter().filter(|link| link.state().is_up).count();
        self.rates.shared.set_siblings(siblings.len() as u32, connected as u32);
    }

    /// Whether this gateway tells other gateways of its region of its requests.
    pub(crate) fn has_siblings(&self) -> bool {
        self.config.has_siblings(self.tls.identity.region())
    }

    /// A peer of the file. No request is forwarded to others.
    pub(crate) fn link(&self, id: PeerId) -> Option<&Arc<Link>> {
        self.links.listed().get(id.index())
    }

    /// The peer as `region/name`.
    pub(crate) fn name(&self, id: PeerId) -> String {
        self.link(id).map_or_else(|| id.to_string(), |link| link.identity.to_string())
    }

    /// Whether a peer has permitted replicas, or may have them once it is connected again.
    pub(crate) fn may_serve(
        &self,
        residency: &Residency,
        residence: &Residence,
        peer: PeerId,
    ) -> bool {
        let Some(link) = self.link(peer).filter(|link| !link.sibling) else { return false };
        let known = residency.known();
        residence.is_free()
            || known.permits_region(residence, link.region())
            || known.permits_peer(residence, &link.identity, &link.places())
    }

    /// The followed peers, as `region/name`, that may have permitted replicas and are not connected.
    pub(crate) fn lost(&self, residency: &Residency, residence: &Residence) -> Vec<String> {
        let lost =
            self.links.listed().iter().filter(|link| !link.state().is_up).map(|link| link.id);
        let lost = lost.filter(|peer| self.may_serve(residency, residence, *peer));
        lost.map(|peer| self.name(peer)).collect()
    }

    /// The counts of requests that a gateway forwards to this one.
    pub(super) fn taken(&self, from: &Identity) -> &Arc<Tally> {
        let link = self.links.listed().iter().find(|link| link.identity == *from);
        link.map_or(&self.others, |link| &link.taken)
    }

    /// When each followed peer was up and down.
    pub(crate) fn histories(&self, now_ms: u64) -> Vec<History> {
        self.links.all().iter().map(|link| link.history(now_ms)).collect()
    }

    /// The state of each, for the status page. Gateways that are not followed share one row, once
    /// one of them has sent something.
    pub(crate) fn status(&self, driver: &Driver) -> Vec<admin::Peer> {
        let mut rows: Vec<_> =
            self.links.all().iter().map(|link| link.status(driver, &self.models)).collect();
        rows.iter_mut().for_each(|row| row.prefixes &= self.handover.compares());
        let taken = self.others.read();
        if taken.begun > 0 {
            let name = "others".to_owned();
            let state = "not followed".to_owned();
            rows.push(admin::Peer { name, state, taken, ..admin::Peer::default() });
        }
        rows
    }

    /// Waits for the end of all requests that peers forwarded, for at most `patience`.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.inbound.close();
        if tokio::time::timeout(patience, self.inbound.wait()).await.is_err() {
            let left = self.inbound.len();
            tracing::warn!(left, "timeouts.drain is over; forwarded requests of peers are cut off");
        }
    }
}
