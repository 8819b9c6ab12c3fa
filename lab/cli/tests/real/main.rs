//! Fleets of real processes: llama.cpp servers, gateways, control planes, regions; official clients.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod adapters;
mod chaos;
#[path = "../clients/mod.rs"]
mod clients;
mod common;
mod control;
mod demo;
mod from_zero;
mod intervals;
mod kill;
mod live;
mod names;
mod peers;
mod planned;
mod prefix;
#[path = "../programs/mod.rs"]
mod programs;
mod reload;
mod residency;
mod resume;
mod sdks;
mod siblings;
mod up;
