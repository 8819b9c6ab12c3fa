//! The engine model behind vLLM's HTTP API.
//!
//! To a gateway this is a vLLM: the same paths, stream events, usage with `cached_tokens`, metric
//! names, load header and error bodies. Behind them is [`meridian_engine::Engine`] on a clock, so a
//! laptop can stand in for a fleet of GPUs as far as queueing, batching and prefix caching go. The
//! text of a reply is artificial: words of three letters, one per token, the same for the same
//! prompt and seed. A reply with a limit (`max_tokens`) uses it up, so a benchmark knows the
//! length; a chat without one ends on its own.
//!
//! One task owns the machine (`pump.rs`). Connection tasks send it requests, and each reads its
//! progress from a mailbox. Tokens due at one instant are one chunk on the wire.
//!
//! An engine can serve one leg of a request that is prefilled and decoded by different engines
//! (`kv.rs`); the KV then crosses a socket between them.
//!
//! It deliberately has no tokenizer (a token is four bytes), no authentication and no TLS: it is
//! meant for trials, tests and benchmarks, and listens on loopback by default.

mod adapters;
mod api;
mod body;
mod chat;
mod clock;
mod error;
mod faults;
mod histogram;
mod kv;
mod lora_info;
mod mailbox;
mod metrics;
mod options;
mod orca;
mod prompt;
mod pump;
mod render;
mod reply;
mod server;
mod service;

pub use body::ReplyBody;
pub use error::Error;
pub use kv::{LoadFailure, Network, Role, Route, Routes, Transfer};
pub use meridian_engine as engine;
pub use options::Options;
pub use server::{serve, serve_service};
pub use service::Service;
