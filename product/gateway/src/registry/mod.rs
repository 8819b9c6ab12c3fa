//! Follows the control plane: this gateway reports that it is alive, and serves the replicas that
//! it is assigned.
//!
//! There are four tasks:
//! - one keeps the lease (`lease.rs`),
//! - one keeps the view of the registry up to date (`watch.rs`),
//! - one applies the view to this gateway's replicas (`apply.rs`, based on the pure `wanted.rs`),
//! - one saves the view in a file (`kept.rs`).
//!
//! No request waits for them. A gateway starts with its own file and, without the control plane,
//! with the saved view. A gateway that loses the control plane keeps its last view and reports
//! that: once in the log, and permanently in its status and metrics.
//!
//! If several control planes serve the registry, all tasks use the same one, and the next one when
//! it fails (`planes.rs`). The control plane is lost when all of them have failed.
//!
//! Deliberately not here: detecting that another gateway is gone. Leases do that, so all sides
//! agree.

mod apply;
mod ask;
pub(crate) mod following;
mod kept;
mod lease;
mod lost;
mod meet;
mod ours;
mod pauses;
mod planes;
pub(crate) mod secured;
mod view_file;
mod wanted;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

pub(crate) use self::apply::Here;
use self::following::Following;
pub(crate) use self::lease::Addresses;
pub(crate) use self::meet::meet;

/// Timeout for deregistering with the control plane.
const GOODBYE: Duration = Duration::from_secs(1);

/// Starts all tasks for the control plane, which run until the gateway ends.
pub(crate) fn start(
    following: &Arc<Following>,
    addresses: Addresses,
    here: Here,
    tasks: &mut JoinSet<()>,
) {
    let here = Arc::new(here);
    tasks.spawn(lease::keep(following.clone(), addresses, here.clone()));
    tasks.spawn(watch::keep(following.clone()));
    tasks.spawn(apply::keep(following.clone(), here));
    tasks.spawn(kept::keep(following.clone()));
}

/// Deregisters this gateway, so its replicas are adopted while it drains, not a lease later.
pub(crate) async fn leave(following: &Following) {
    following.leaving.cancel();
    let Some(lease) = following.state().lease.take() else { return };
    // If this fails, the lease runs out.
    let _ = tokio::time::timeout(GOODBYE, lease::give_back(following, &lease, GOODBYE)).await;
}
