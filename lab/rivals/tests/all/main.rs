//! The policies of other routers: their scenarios, the routers' recorded choices, and the tests that
//! the routing machine has for every policy, here with all of them.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[path = "../../../../product/routing/tests/all/legs.rs"]
mod legs;
#[path = "../../../../product/routing/tests/machine/peers.rs"]
mod peers;
#[path = "../../../../product/routing/tests/all/policies.rs"]
mod policies;
#[path = "../../../../product/routing/tests/all/purity.rs"]
mod purity;
mod reference;
#[path = "../../../../product/routing/tests/machine/region.rs"]
mod region;
#[path = "../../../../product/routing/tests/all/regions.rs"]
mod regions;
#[path = "../../../../product/routing/tests/all/registry.rs"]
mod registry;

/// The policies that the tests go through.
mod every {
    pub(crate) use meridian_rivals::{EVERY as ALL, find};

    /// Policies with a term that depends on what a decision does not keep: the prompt's blocks, or whose
    /// turn it was.
    pub(crate) const UNTOLD: &[&str] = &["dynamo_kv", "no_hit_lru"];
}
