//! Kubernetes: our chart and discovery with a real API server, helm and kubectl. There is no kubelet and no
//! controller, so no pod runs.
//!
//! `./x test --all` and `./x test kube` run it: its programs take minutes to build, the first time.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod cluster;
mod server;
