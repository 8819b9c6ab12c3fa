//! The types that every other crate uses: time, ids, fingerprints and a seeded random generator.
//!
//! Nothing here makes decisions. The crate is `no_std`, so it cannot use a clock, a socket or a
//! random hash order, and the same seed gives the same bytes on every platform.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod fingerprint;
mod hash;
mod ids;
mod quantile;
mod rng;
mod time;

pub use fingerprint::{Fingerprinter, keyed, mix};
pub use hash::{NumberHasher, Seeded};
pub use ids::{BatchId, FlowId, ModelId, PeerId, PortId, ReplicaId, RequestId};
pub use quantile::{median, quantile, sorted_quantile};
pub use rng::Rng;
pub use time::Time;

pub use core::time::Duration;
