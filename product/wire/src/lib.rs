//! Serialized types: the OpenAI API, engines and their signals, the protocols of prefill and decode
//! legs, the admin API, the peer protocol, configuration.
//!
//! Pure functions over bytes. The machines' own types are never serialized; everything that leaves
//! a process has a type here and an explicit conversion.

pub mod admin;
pub mod config;
pub mod engines;
pub mod flow;
pub mod intervals;
pub mod legs;
pub mod openai;
pub mod peer;
pub mod registry;
pub mod signals;
pub mod wan;
