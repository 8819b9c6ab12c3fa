//! The replicas of this gateway: which there are, what they serve, whether they answer, and the
//! connections to them.

mod announce;
mod discovery;
pub(crate) mod fleet;
pub(crate) mod handover;
pub(crate) mod life;
pub(crate) mod membership;
pub(crate) mod model_list;
pub(crate) mod name;
pub(crate) mod probes;
pub(crate) mod questions;
pub(crate) mod reports;
pub(crate) mod rtt;
mod socket;
pub(crate) mod standing;
pub(crate) mod upstream;
