//! Finds the other gateways of this region while this one serves: at the addresses of a DNS name
//! (`resolve.rs`), such as a headless Service of Kubernetes, and among those in the registry.
//!
//! An address says nothing about the gateway behind it, so it is dialled, and the certificate names it. A
//! gateway that finds itself leaves the address alone. A gateway that is no longer listed stays while it
//! is connected: a name may leave out one that drains, or has no replica for a moment, and its requests
//! still count.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use meridian_config::{self as config, name_and_port};
use meridian_protocol::peer::Identity;
use meridian_routing::Input;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::all::Peers;
use super::dial::{DialError, PATIENCE, PAUSES, Sighting, identify};
use super::link::Link;
use super::links::Unlinked;
use super::session;
use super::sightings::{Place, Sightings};
use crate::inputs::residency::Residency;
use crate::rarely::Rarely;
use crate::replicas::region::Region;
use crate::resolve::{SHORTEST, addresses, holds, pause_after_failure, resolver};

/// Interval of looking again at an address whose gateway is this one, or known at another address.
const AGAIN: Duration = Duration::from_secs(30);

/// What a task needs to follow a gateway.
#[derive(Clone)]
pub(super) struct Finder {
    pub(super) region: Arc<Region>,
    pub(super) residency: Arc<Residency>,
    pub(super) peers: Arc<Peers>,
}

/// Follows the gateways that the source reports; never returns.
pub(super) async fn keep(finder: Finder, source: config::SiblingDiscovery) {
    let (by_name, named) = watch::channel(BTreeSet::new());
    let mut registered = finder.peers.sightings.registered.subscribe();
    let mut named = named;
    let resolving = async {
        match &source.dns {
            Some(dns) => resolve(&finder.peers.sightings, dns, source.server, by_name).await,
            None => std::future::pending().await,
        }
    };
    let following = async {
        let (mut tasks, mut running) = (BTreeMap::new(), JoinSet::new());
        loop {
            let mut now = named.borrow_and_update().clone();
            if source.registry {
                now.extend(registered.borrow_and_update().iter().cloned());
            }
            finder.follow(&now, &mut tasks, &mut running);
            tokio::select! {
                Ok(()) = named.changed() => {}
                Ok(()) = registered.changed(), if source.registry => {}
                Some(ended) = running.join_next() => match ended {
                    Ok(place) => drop(tasks.remove(&place)),
                    Err(error) => if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    },
                }
            }
        }
    };
    tokio::join!(resolving, following);
}

/// Keeps the addresses of a name up to date. If it can't be resolved, the last ones stay.
async fn resolve(
    sightings: &Sightings,
    dns: &str,
    server: Option<SocketAddr>,
    found: watch::Sender<BTreeSet<Place>>,
) {
    let (name, port) = name_and_port(dns).expect("the configuration was checked");
    let (mut pause, log) = (SHORTEST, Rarely::default());
    loop {
        let answer = match resolver(server) {
            Ok(resolver) => addresses(&resolver, name).await,
            Err(why) => Err(why),
        };
        pause = match answer {
            Ok((ips, until)) => {
                let address = |ip| SocketAddr::new(ip, port).to_string();
                let place = |ip| Place { address: address(ip), identity: None };
                let places: BTreeSet<_> = ips.into_iter().map(place).collect();
                found.send_if_modified(|now| std::mem::replace(now, places.clone()) != places);
                holds(until)
            }
            Err(error) => {
                if let Some(unlogged) = log.due("") {
                    tracing::warn!(dns, error, unlogged, "cannot look for gateways of this region");
                }
                pause_after_failure(pause)
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = sightings.again.notified() => sleep(SHORTEST).await,
        }
    }
}

/// Tells the task of a place whether the sources still have it.
type Tasks = BTreeMap<Place, watch::Sender<bool>>;

impl Finder {
    /// Has a task for each place.
    fn follow(&self, now: &BTreeSet<Place>, tasks: &mut Tasks, running: &mut JoinSet<Place>) {
        for (place, listed) in &*tasks {
            listed.send_if_modified(|is| std::mem::replace(is, now.contains(place)) != *is);
        }
        for place in now.iter().filter(|place| !tasks.contains_key(place)).collect::<Vec<_>>() {
            let (listed, is_listed) = watch::channel(true);
            tasks.insert(place.clone(), listed);
            running.spawn(self.clone().at(place.clone(), is_listed));
        }
    }

    /// Follows the gateway at a place until it is not listed any more, and not connected.
    async fn at(self, place: Place, mut listed: watch::Receiver<bool>) -> Place {
        loop {
            let link = tokio::select! {
                link = self.meet(&place) => link,
                _ = listed.wait_for(|listed| !listed) => return place,
            };
            tracing::info!(peer = %link.identity, address = place.address, "found a gateway of this region");
            let (region, residency) = (self.region.clone(), self.residency.clone());
            let is_over = tokio::select! {
                () = session::keep(region, residency, self.peers.clone(), link.clone()) => false,
                () = left(&link, &mut listed) => true,
                () = self.replaced(&link, &place) => false,
            };
            self.lose(&link);
            if is_over {
                return place;
            }
        }
    }

    /// Finds out which gateway is there, and makes a link to it.
    async fn meet(&self, place: &Place) -> Arc<Link> {
        let (mut pause, log) = (PAUSES.0, Rarely::default());
        loop {
            let why = match self.link(place).await {
                Ok(link) => return link,
                Err(NotMet::Here) => {
                    sleep(AGAIN).await;
                    continue;
                }
                Err(why) => why,
            };
            let is_known = matches!(why, NotMet::Unlinked(Unlinked::Known));
            let error = why.to_string();
            if !is_known && let Some(unlogged) = log.due(&error) {
                tracing::warn!(
                    address = place.address,
                    error,
                    unlogged,
                    "cannot follow a gateway of this region"
                );
            }
            sleep(if is_known { AGAIN } else { pause }).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn link(&self, place: &Place) -> Result<Arc<Link>, NotMet> {
        let peers = &self.peers;
        let own = &peers.tls.identity;
        let identity = match &place.identity {
            Some(identity) => identity.clone(),
            None => {
                let seen = self.look(&place.address).await?;
                match &seen.identity == own {
                    true if seen.is_here => return Err(NotMet::Here),
                    true => return Err(NotMet::Same(own.clone())),
                    false => seen.identity,
                }
            }
        };
        let peer = config::Peer {
            name: identity.gateway().to_owned(),
            region: identity.region().to_owned(),
            continent: None,
            address: place.address.clone(),
            places: Vec::new(),
        };
        let link = |id| Link::new(id, &peer, &peers.config, &peers.tls);
        Ok(peers.links.add(&identity, link)?)
    }

    async fn look(&self, address: &str) -> Result<Sighting, NotMet> {
        let seen = timeout(PATIENCE, identify(&self.peers.tls, address)).await;
        Ok(seen.map_err(|_| NotMet::Silent)??)
    }

    /// Waits until another gateway has the address.
    async fn replaced(&self, link: &Link, place: &Place) {
        loop {
            sleep(PAUSES.1).await;
            if link.state().is_up || place.identity.is_some() {
                continue;
            }
            if self.look(&place.address).await.is_ok_and(|seen| seen.identity != link.identity) {
                return;
            }
        }
    }

    /// Nothing of the gateway counts any more.
    fn lose(&self, link: &Arc<Link>) {
        tracing::info!(peer = %link.identity, "a gateway of this region is no longer there");
        self.region.driver.tell(Input::SiblingLost(link.sibling_id()));
        self.peers.handover.unused(link.id);
        self.peers.links.remove(link);
        self.peers.note_siblings();
    }
}

/// Waits until a gateway is neither listed nor connected.
async fn left(link: &Link, listed: &mut watch::Receiver<bool>) {
    loop {
        let _ = listed.wait_for(|listed| !listed).await;
        if !link.state().is_up {
            return;
        }
        sleep(SHORTEST).await;
    }
}

/// Why a gateway is not followed.
#[derive(Debug, thiserror::Error)]
enum NotMet {
    #[error("it is this gateway itself")]
    Here,
    #[error(
        "it has the certificate of this gateway, {0}; give each gateway a certificate of its own"
    )]
    Same(Identity),
    #[error("no answer within 5 s")]
    Silent,
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Unlinked(#[from] Unlinked),
}
