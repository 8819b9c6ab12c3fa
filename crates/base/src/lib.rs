//! The vocabulary every other crate speaks: time, ids, fingerprints and seeded chance.
//!
//! Nothing here decides anything. The crate is `no_std`, so a clock, a socket or a random hash
//! order cannot slip in, and the same seed gives the same bytes on every platform.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod fingerprint;
mod hash;
mod ids;
mod rng;
mod time;

pub use fingerprint::{Fingerprinter, keyed, mix};
pub use hash::{NumberHasher, Seeded};
pub use ids::{BatchId, FlowId, ModelId, PeerId, PortId, ReplicaId, RequestId};
pub use rng::Rng;
pub use time::Time;

pub use core::time::Duration;
