//! Simulated worlds: their invariants, their recovery from faults, and their cost.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod cold_burst;
mod heal;
mod herding;
mod many_replicas;
mod news;
mod pairs;
mod preempted;
mod residency;
mod sessions;
mod traces;
mod world;
