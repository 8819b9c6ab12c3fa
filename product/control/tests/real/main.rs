//! The control plane on a real etcd.
//!
//! The tests of each store run here as they do on the file. Further ones break etcd: they kill its
//! members, stop them, cut them off, fill them, compact and restore them.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[path = "../each/api.rs"]
mod api;
mod breaks;
#[path = "../each/dns.rs"]
mod dns;
mod etcd;
mod faults;
mod lost;
mod model;
#[path = "../each/names.rs"]
mod names;
mod network;
mod owners;
#[path = "../all/plane/mod.rs"]
mod plane;
mod planes;
#[path = "../all/ports.rs"]
mod ports;
mod secured;
#[path = "../each/store.rs"]
mod store;
mod stores;
#[path = "../all/twin/mod.rs"]
mod twin;
