//! Programs of others beside ours: coding agents, LangChain, LiteLLM, a browser, Prometheus, nginx, an
//! OpenTelemetry collector, an emulated Route 53, Jupyter, and validators of JSON schemas and of Kubernetes documents.
//! `./x test --all` runs it.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod agents;
mod browser;
#[path = "../clients/mod.rs"]
mod clients;
#[path = "../real/common/mod.rs"]
mod common;
mod frameworks;
mod import;
mod kubernetes;
mod litellm;
mod notebook;
mod page;
#[path = "../programs/mod.rs"]
mod programs;
mod prometheus;
mod regions;
mod route53;
mod schema;
mod traces;
mod verify;
