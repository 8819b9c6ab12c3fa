//! Policies, structures and the registry, beside their scenarios.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod equal;
mod expressions;
mod half_broken;
mod legs;
mod models;
mod pairs;
mod policies;
mod purity;
mod regions;
mod registry;
mod sampling;
mod sibling_queues;
mod siblings;

/// The policies that the tests go through. `meridian-rivals` has the same tests, with those of other
/// routers too.
mod every {
    pub(crate) use meridian_routing::policy::{ALL, find};

    /// Policies with a term that depends on the prompt's blocks, which a decision does not keep.
    pub(crate) const UNTOLD: &[&str] = &[];
}
