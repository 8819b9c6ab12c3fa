//! The parts of a gateway that its answers use on their way to the clients.

use std::sync::Arc;

use crate::inputs::Inputs;
use crate::metrics::Metrics;
use crate::peers::all::Peers;
use crate::replicas::fleet::Fleet;
use crate::request::send::attempts::Attempts;

/// Shared by the answers of one thread.
pub(crate) struct Answers {
    /// Resumes streams that break.
    pub(crate) attempts: Attempts,
    /// Its `ratios` and `pins` learn from answers.
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) metrics: Arc<Metrics>,
}
