//! From an admitted request to the first piece of an answer: the machine's decisions, the attempts
//! at replicas and peers, and the legs of an attempt.

pub(crate) mod attempts;
pub(crate) mod beginning;
pub(crate) mod destination;
pub(crate) mod engine_error;
mod kept;
mod orders;
mod peer;
mod replica;
pub(crate) mod transport;

use std::sync::Arc;

use crate::replicas::upstream::Upstream;
use crate::request::plane::DataPlane;

/// Sends the requests of one thread.
pub(crate) struct Attempts {
    pub(crate) plane: Arc<DataPlane>,
    /// This thread's connections to replicas of this region.
    pub(crate) near: Upstream,
}
