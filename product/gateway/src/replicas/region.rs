//! This region, as one gateway serves it: the routing machine, the replicas that it decides about,
//! and whether the gateway is shutting down. Every part above holds this one handle.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::draining::Draining;
use crate::joining::Joining;
use crate::machine::driver::Driver;
use crate::replicas::fleet::Fleet;

pub(crate) struct Region {
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    /// A draining gateway takes no requests, and reports no free capacity.
    pub(crate) draining: Draining,
    /// A gateway that starts is not ready while it waits for what others know.
    pub(crate) joining: Joining,
    /// Ends every connection, every stream, and every poll of a replica.
    pub(crate) over: CancellationToken,
    /// Keys the hashes of names, and randomizes the pauses of different gateways.
    pub(crate) seed: u64,
}
