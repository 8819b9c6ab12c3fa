//! The control plane: its store, its API and its leases.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod api;
mod browser;
mod disk;
mod embedded;
mod kill;
mod model;
mod names;
mod owners;
mod plane;
mod power;
mod tls;
mod twin;
