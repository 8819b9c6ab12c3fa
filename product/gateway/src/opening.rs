//! Delays accepting the first clients. A gateway that learns of its replicas from other processes
//! has none when it starts, and would refuse requests that the fleet could serve. The first clients
//! therefore wait in the listener's queue, for a limited time, until a replica or a peer is known.
//! A gateway whose own file lists replicas accepts at once.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::peers::all::Peers;
use crate::replicas::fleet::Fleet;

/// Longest delay: a lost control plane may stay lost, and a refusal is better than no answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until there is a replica or a peer that can take requests.
pub(crate) async fn somewhere_to_go(fleet: &Fleet, peers: Option<&Peers>) {
    let known = async {
        while !is_known(fleet, peers) {
            sleep(LOOK).await;
        }
    };
    if timeout(PATIENCE, known).await.is_err() {
        tracing::warn!(
            "no replica is known from the control plane or from peers yet; the gateway refuses clients until one is"
        );
    }
}

fn is_known(fleet: &Fleet, peers: Option<&Peers>) -> bool {
    let here = || fleet.all().iter().any(|member| member.models_page().is_some());
    let away = || peers.is_some_and(|peers| !peers.models.pages().is_empty());
    here() || away()
}
