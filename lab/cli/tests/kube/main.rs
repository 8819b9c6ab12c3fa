//! Kubernetes: our chart and discovery with a real API server, helm and kubectl. There is no kubelet and no
//! controller: `kubelet.rs` does their part where pods have to run.
//!
//! `./x test --all` and `./x test kube` run it: its programs take minutes to build, the first time.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod chart;
mod cluster;
#[path = "../real/common/mod.rs"]
mod common;
mod kubelet;
mod load;
#[path = "../programs/mod.rs"]
mod programs;
mod rollout;
mod server;
