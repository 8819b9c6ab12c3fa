//! Policies, structures and the registry, beside their scenarios and recordings.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod assign;
mod expressions;
mod legs;
mod models;
mod pairs;
mod policies;
mod purity;
mod reference;
mod regions;
mod registry;
mod sampling;
