//! The replicas of this gateway: membership, discovery, health checks, and connections.

mod announce;
mod compare;
pub(crate) mod credentials;
pub(crate) mod departed;
pub(crate) mod dial;
pub(crate) mod discovery;
pub(crate) mod drains;
pub(crate) mod fleet;
pub(crate) mod handover;
pub(crate) mod histories;
pub(crate) mod http1;
pub(crate) mod life;
pub(crate) mod listing;
pub(crate) mod member;
pub(crate) mod membership;
pub(crate) mod model_list;
mod noted_up;
mod pools;
pub(crate) mod probes;
pub(crate) mod questions;
pub(crate) mod region;
pub(crate) mod reports;
pub(crate) mod rtt;
mod socket;
pub(crate) mod standing;
mod transfers;
pub(crate) mod upstream;
