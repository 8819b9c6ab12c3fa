//! When the doors open: a gateway that learns of its replicas from others has none when it starts,
//! and what came at once would be refused although the fleet could serve it. So the first clients
//! wait in the listener's queue until somebody is known who serves something, a replica or a peer,
//! and for a bounded time. A gateway whose own file names replicas opens at once.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::peers::all::Peers;
use crate::replicas::fleet::Fleet;

/// The longest that the doors stay closed: a control plane that is gone may stay so, and a refusal
/// is better than no answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until there is a replica or a peer to send requests to.
pub(crate) async fn somewhere_to_go(fleet: &Fleet, peers: Option<&Peers>) {
    let known = async {
        while !is_known(fleet, peers) {
            sleep(LOOK).await;
        }
    };
    if timeout(PATIENCE, known).await.is_err() {
        tracing::warn!(
            "neither the control plane nor a peer has told of a replica: clients are refused until one does"
        );
    }
}

fn is_known(fleet: &Fleet, peers: Option<&Peers>) -> bool {
    let here = || fleet.all().iter().any(|member| member.models_page().is_some());
    let away = || peers.is_some_and(|peers| !peers.models.pages().is_empty());
    here() || away()
}
