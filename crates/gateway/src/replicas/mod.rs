//! The replicas of this gateway: which there are, what they serve, whether they answer, and the
//! connections to them.

pub(crate) mod discovery;
pub(crate) mod fleet;
pub(crate) mod life;
pub(crate) mod name;
pub(crate) mod probes;
pub(crate) mod rtt;
mod socket;
pub(crate) mod upstream;
