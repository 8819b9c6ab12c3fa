//! Commands as processes, without other software.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod bench;
mod check;
mod doctor;
mod examples;
mod explain;
mod flow;
mod import;
mod journal;
mod plan;
mod plan_network;
mod process;
mod qdisc;
mod shards;
mod wan;
mod what_if;
mod workload;
mod wrong_configs;
