//! Fleets of real processes: llama.cpp servers, regions, a browser, nginx, LiteLLM, a collector; and
//! validators of JSON schemas and of Kubernetes documents.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod adapters;
mod browser;
mod chaos;
mod common;
mod control;
mod faults;
mod import;
mod intervals;
mod kill;
mod kubernetes;
mod litellm;
mod live;
mod names;
mod notebook;
mod page;
mod peers;
mod planned;
mod prefix;
#[path = "../programs/mod.rs"]
mod programs;
mod prometheus;
mod regions;
mod reload;
mod residency;
mod resume;
mod route53;
mod schema;
mod traces;
mod up;
mod verify;
