//! The types that every other crate uses: time, ids, fingerprints and a seeded random generator, and
//! the values that routing decides on and gateways exchange.
//!
//! Nothing here chooses a replica. The crate is `no_std`, so it cannot use a clock, a socket or a
//! random hash order, and the same seed gives the same bytes on every platform.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

pub mod assign;
mod digest;
mod fingerprint;
mod hash;
mod holdings;
mod ids;
mod pool;
mod priority;
mod quantile;
pub mod residency;
mod rng;
mod sibling;
mod time;

pub use digest::{Digest, Pace, PeerReplica};
pub use fingerprint::{Fingerprinter, keyed, mix};
pub use hash::{NumberHasher, Seeded};
pub use holdings::{Branch, Holdings};
pub use ids::{BatchId, FlowId, ModelId, PeerId, PortId, ReplicaId, RequestId, SiblingId};
pub use pool::{Pool, Role};
pub use priority::Priority;
pub use quantile::{median, quantile, sorted_quantile};
pub use rng::Rng;
pub use sibling::{PromptTiming, SiblingEnding, SiblingLine, SiblingRecord, SiblingRequest};
pub use time::Time;

pub use core::time::Duration;
