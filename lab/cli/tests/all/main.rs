//! Commands as processes, without other software.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod bench;
mod doctor;
mod flow;
mod journal;
mod plan;
mod plan_network;
mod process;
#[path = "../programs/mod.rs"]
mod programs;
mod qdisc;
mod shards;
mod wan;
mod what_if;
mod workload;
