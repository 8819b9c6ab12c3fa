//! This region, as the tasks of its peers see it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::draining::Draining;
use crate::machine::driver::Driver;
use crate::replicas::fleet::Fleet;

#[derive(Clone)]
pub(crate) struct Region {
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    /// A gateway that drains has room for nothing.
    pub(crate) draining: Draining,
    /// Ends every connection and stream.
    pub(crate) over: CancellationToken,
    /// Spreads the pauses of many gateways.
    pub(crate) seed: u64,
}
