//! This region, as its peer tasks see it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::draining::Draining;
use crate::machine::driver::Driver;
use crate::replicas::fleet::Fleet;

#[derive(Clone)]
pub(crate) struct Region {
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    /// A draining gateway reports no free capacity.
    pub(crate) draining: Draining,
    /// Ends every connection and stream.
    pub(crate) over: CancellationToken,
    /// Randomizes the pauses of different gateways.
    pub(crate) seed: u64,
}
