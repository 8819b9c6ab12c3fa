//! Following the control plane: this gateway says that it lives, and has the replicas that follow
//! from who else does.
//!
//! Four tasks: one keeps the lease (`lease.rs`), one keeps the view of the registry up to date
//! (`watch.rs`), one makes the replicas here those that the view assigns to this gateway
//! (`apply.rs`, by the pure `wanted.rs`), one keeps the view in a file (`kept.rs`). Nothing waits for
//! any of them. A gateway starts with its own file, and without the control plane with the view that
//! it kept; one that has lost the control plane goes on with its last view and says so, once in
//! the log and all the time in its status and metrics.
//!
//! Deliberately not here: noticing by itself that another gateway is gone. Leases do that, so that
//! all sides agree on it.

mod apply;
mod ask;
pub(crate) mod following;
mod kept;
mod lease;
mod ours;
pub(crate) mod secured;
mod view_file;
mod wanted;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

pub(crate) use self::apply::Applied;
use self::following::Following;
pub(crate) use self::lease::{Addresses, Reported};

/// For the control plane to hear that this gateway goes.
const GOODBYE: Duration = Duration::from_secs(1);

/// Everything that goes on with the control plane, until the gateway is over.
pub(crate) fn start(
    following: &Arc<Following>,
    addresses: Addresses,
    reported: Reported,
    applied: Applied,
    tasks: &mut JoinSet<()>,
) {
    tasks.spawn(lease::keep(following.clone(), addresses, reported));
    tasks.spawn(watch::keep(following.clone()));
    tasks.spawn(apply::keep(following.clone(), applied));
    tasks.spawn(kept::keep(following.clone()));
}

/// Says that this gateway goes, so that its replicas are adopted while it drains, not a lease later.
pub(crate) async fn leave(following: &Following) {
    following.leaving.cancel();
    let Some(lease) = following.state().lease.take() else { return };
    // Where it is not heard, the lease runs out.
    let _ = tokio::time::timeout(GOODBYE, lease::give_back(following, &lease, GOODBYE)).await;
}
