//! The lease: the control plane considers this gateway alive while it is renewed.
//!
//! It is renewed with two thirds of its time left. Each renewal reports the replicas as this
//! gateway sees them, as lists and autoscalers show them. If the lease is lost after a long
//! interruption, a new one is requested at once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};
use meridian_protocol::registry::{Announce, Gateway, Leased, Load, Renew, Seen};
use tokio::net::UdpSocket;

use super::apply::Here;
use super::following::{Following, Task};
use super::lost::Lost;
use super::ours::Ours;
use crate::replicas::member::Member;
use crate::replicas::standing;

/// The addresses of this gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) clients: SocketAddr,
    pub(crate) peers: Option<SocketAddr>,
}

/// Keeps the lease until the gateway shuts down.
pub(super) async fn keep(following: Arc<Following>, addresses: Addresses, here: Arc<Here>) {
    let mut pauses = following.pauses(1);
    let third = following.control.config.lease.0 / 3;
    loop {
        let at = following.control.planes.used();
        let renewed = tokio::select! {
            renewed = renew(&following, at, addresses, &here) => renewed,
            () = following.leaving.cancelled() => return,
        };
        let pause = async {
            match renewed {
                Ok(()) => {
                    following.did(Task::Lease);
                    pauses.begin_anew();
                    tokio::time::sleep(third).await;
                }
                Err(why) => {
                    if is_over(&why) {
                        following.state().lease = None;
                    }
                    following.failed(Task::Lease, at, &why, &mut pauses);
                    pauses.pause().await;
                }
            }
        };
        tokio::select! {
            () = pause => {}
            () = following.leaving.cancelled() => return,
        }
    }
}

/// Whether the lease ran out, or another gateway has the name.
fn is_over(why: &Lost) -> bool {
    matches!(why, Lost::Refused { code, .. } if code == "no_lease")
}

async fn renew(
    following: &Following,
    at: usize,
    addresses: Addresses,
    here: &Here,
) -> Result<(), Lost> {
    let held = following.state().lease.clone();
    let (method, body) = match held {
        None => {
            let peers = match addresses.peers {
                Some(peers) => Some(reachable(peers, following.control.planes.url(at)).await),
                None => None,
            };
            (Method::POST, json(&announce(following, Addresses { peers, ..addresses })))
        }
        Some(lease) => (Method::PUT, json(&report(here, following, lease))),
    };
    let limit = following.control.config.lease.0 / 3;
    let leased = following.control.ask::<Leased>(at, method, &path(following), body, limit).await?;
    if following.leaving.is_cancelled() {
        return Ok(());
    }
    if following.state().lease.replace(leased.lease).is_none() {
        tracing::info!(name = following.name, "the control plane counts this gateway as alive");
    }
    Ok(())
}

/// Deregisters this gateway, at another control plane if the one in use fails.
pub(super) async fn give_back(
    following: &Following,
    lease: &str,
    limit: Duration,
) -> Result<(), Lost> {
    let path = format!("{}?lease={lease}", path(following));
    let (control, planes) = (&following.control, &following.control.planes);
    let mut rest = planes.count();
    let limit = limit / u32::try_from(rest).unwrap_or(1);
    loop {
        let at = planes.used();
        let said = control.ask(at, Method::DELETE, &path, [][..].into(), limit).await;
        let Err(why) = said.map(|_: serde_json::Value| ()) else { return Ok(()) };
        planes.failed(at, &why);
        rest -= 1;
        if rest == 0 || !why.is_its_own() {
            return Err(why);
        }
    }
}

fn path(following: &Following) -> String {
    format!("/admin/gateways/{}", following.name)
}

fn json(value: &impl serde::Serialize) -> bytes::Bytes {
    serde_json::to_vec(value).expect("keys are strings, numbers are finite").into()
}

/// The peer address with the address of this machine towards the control plane, if the gateway
/// listens on all of them: others of its region dial it.
async fn reachable(peers: SocketAddr, control: &str) -> SocketAddr {
    if !peers.ip().is_unspecified() {
        return peers;
    }
    let route = async {
        let url: Uri = control.parse().ok()?;
        let target = (url.host()?.trim_matches(['[', ']']).to_owned(), url.port_u16()?);
        let target = tokio::net::lookup_host(target).await.ok()?.next()?;
        let any: IpAddr = match target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Nothing is sent: this only selects the route.
        let socket = UdpSocket::bind((any, 0)).await.ok()?;
        socket.connect(target).await.ok()?;
        socket.local_addr().ok()
    };
    let ip = route.await.map_or(peers.ip(), |own| own.ip());
    SocketAddr::new(ip, peers.port())
}

fn announce(following: &Following, addresses: Addresses) -> Announce {
    let gateway = Gateway {
        region: following.region.clone(),
        address: format!("http://{}", addresses.clients),
        peer_address: addresses.peers.map(|address| address.to_string()),
        public: following.control.config.public.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Gateway::default()
    };
    Announce { gateway, lease: following.control.config.lease }
}

fn report(here: &Here, following: &Following, lease: String) -> Renew {
    let members: Vec<_> = {
        let state = following.state();
        let one = |o: &Ours| (o.name.clone(), o.member.clone(), o.adopted.is_some());
        state.present().map(one).collect()
    };
    let driver = &here.replicas.region.driver;
    let mut rtt_ms: BTreeMap<String, f64> = BTreeMap::new();
    for peer in here.peers.iter().flat_map(|peers| peers.status(driver)) {
        let ms = f64::from(peer.rtt_ms);
        if peer.state == "up" && ms > 0.0 {
            let known = rtt_ms.entry(peer.region).or_insert(ms);
            *known = known.min(ms);
        }
    }
    let now = driver.clock.now();
    let inner = driver.lock();
    let load = |(name, member, adopted): (String, Arc<Member>, bool)| {
        let status = inner.routing.replicas().status(member.id, now)?;
        let state = standing::word(status.state, !member.found().models.is_empty());
        let cause = member.cause_of(state);
        let utilisation = status.row.utilisation;
        Some((
            name,
            Load {
                seen: Seen { state: state.to_owned(), cause: cause.unwrap_or_default(), adopted },
                utilisation: if utilisation.is_finite() { utilisation } else { 0.0 },
                running: status.row.running,
                pending: status.row.pending,
            },
        ))
    };
    let held = inner.routing.held_len();
    let replicas = members.into_iter().filter_map(load).collect();
    Renew { lease, held, replicas, rtt_ms }
}

/// Timeout of requests that do not concern the lease.
pub(super) fn patience(following: &Following) -> Duration {
    following.control.config.lease.0.max(Duration::from_secs(5))
}
