//! The control plane: its store, its API and its leases.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[path = "../each/api.rs"]
mod api;
mod browser;
mod disk;
#[path = "../each/dns.rs"]
mod dns;
mod embedded;
mod kill;
mod model;
#[path = "../each/names.rs"]
mod names;
mod owners;
mod plane;
mod ports;
mod power;
#[path = "../each/store.rs"]
mod store;
mod stores;
mod tls;
mod twin;
