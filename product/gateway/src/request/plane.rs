//! The parts that all serving threads use to answer requests.

use std::sync::Arc;

use crate::admin::explain::Explain;
use crate::ids::Ids;
use crate::inputs::Inputs;
use crate::metrics::Metrics;
use crate::peers::all::Peers;
use crate::record::Records;
use crate::replicas::region::Region;
use crate::replicas::upstream::Upstream;

/// The data plane of a gateway.
pub(crate) struct DataPlane {
    pub(crate) region: Arc<Region>,
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) peers: Option<Arc<Peers>>,
    /// Connections to replicas of other regions.
    pub(crate) far: Upstream,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) explain: Arc<Explain>,
    /// The access log, the journal, traces, and the newest requests.
    pub(crate) records: Arc<Records>,
}
