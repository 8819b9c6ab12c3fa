//! The lease: the control plane takes this gateway for alive while it is renewed.
//!
//! It is renewed with two thirds of its time left. Each renewal carries how the replicas are as
//! this gateway sees them, which is what lists and autoscalers show. A lease that is gone, after a
//! break that was too long, is asked for anew at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use meridian_wire::registry::{Announce, Gateway, Leased, Load, Renew, Seen};

use super::ask::Lost;
use super::{Following, Task};
use crate::admin;
use crate::serve::Ready;
use crate::shared::Shared;

/// Keeps the lease, until the gateway goes.
pub(super) async fn keep(shared: Arc<Shared>, following: Arc<Following>, ready: Ready) {
    let mut pauses = following.pauses(1);
    let third = following.config.lease.0 / 3;
    loop {
        let renewed = tokio::select! {
            renewed = renew(&shared, &following, ready) => renewed,
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
                    following.failed(Task::Lease, &why);
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

/// The lease ran out, or another gateway has the name.
fn is_over(why: &Lost) -> bool {
    matches!(why, Lost::Refused { code, .. } if code == "no_lease")
}

async fn renew(shared: &Shared, following: &Following, ready: Ready) -> Result<(), Lost> {
    let held = following.state().lease.clone();
    let (method, body) = match held {
        None => (Method::POST, json(&announce(following, ready))),
        Some(lease) => (Method::PUT, json(&report(shared, following, lease))),
    };
    let limit = following.config.lease.0 / 3;
    let leased = following.ask::<Leased>(method, &path(following), body, limit).await?;
    if following.leaving.is_cancelled() {
        return Ok(());
    }
    if following.state().lease.replace(leased.lease).is_none() {
        tracing::info!(name = following.name, "the control plane counts this gateway as alive");
    }
    Ok(())
}

/// Says that this gateway goes.
pub(super) async fn give_back(following: &Following, lease: &str) -> Result<(), Lost> {
    let path = format!("{}?lease={lease}", path(following));
    let limit = super::GOODBYE;
    let said = following.ask::<serde_json::Value>(Method::DELETE, &path, [][..].into(), limit);
    said.await.map(drop)
}

fn path(following: &Following) -> String {
    format!("/admin/gateways/{}", following.name)
}

fn json(value: &impl serde::Serialize) -> bytes::Bytes {
    serde_json::to_vec(value).expect("keys are strings, numbers are finite").into()
}

fn announce(following: &Following, ready: Ready) -> Announce {
    let gateway = Gateway {
        region: following.region.clone(),
        address: format!("http://{}", ready.listen),
        peer_address: ready.peers.map(|address| address.to_string()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rtt_ms: BTreeMap::new(),
    };
    Announce { gateway, lease: following.config.lease }
}

fn report(shared: &Shared, following: &Following, lease: String) -> Renew {
    let members: Vec<_> = {
        let state = following.state();
        let one = |o: &super::Ours| (o.name.clone(), o.member.clone(), o.adopted.is_some());
        state.ours.values().map(one).collect()
    };
    let mut rtt_ms: BTreeMap<String, f64> = BTreeMap::new();
    for peer in shared.peers.iter().flat_map(|peers| peers.status(&shared.driver)) {
        let ms = f64::from(peer.rtt_ms);
        if peer.state == "up" && ms > 0.0 {
            let known = rtt_ms.entry(peer.region).or_insert(ms);
            *known = known.min(ms);
        }
    }
    let now = shared.driver.clock.now();
    let inner = shared.driver.lock();
    let load = |(name, member, adopted): (String, Arc<crate::replicas::fleet::Member>, bool)| {
        let status = inner.routing.replicas().status(member.id, now)?;
        let state = admin::state(status.state, !member.found().models.is_empty());
        let utilisation = status.row.utilisation;
        Some((
            name,
            Load {
                seen: Seen { state: state.to_owned(), adopted },
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

/// How long a question may take that is not about the lease.
pub(super) fn patience(following: &Following) -> Duration {
    following.config.lease.0.max(Duration::from_secs(5))
}
