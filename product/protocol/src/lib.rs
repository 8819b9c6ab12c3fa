//! Formats that cross a process: the OpenAI API, engines and their signals, the protocols of prefill
//! and decode legs, the admin API, the registry, the peer protocol.
//!
//! Pure functions over bytes. The machines' own types are never serialized; everything that leaves
//! a process has a type here and an explicit conversion.

pub mod address;
pub mod admin;
pub mod engines;
pub mod intervals;
pub mod legs;
pub mod openai;
pub mod peer;
pub mod policy;
pub mod registry;
mod schema;
pub mod signals;
mod suggest;
pub mod units;

pub use suggest::{closest, suggest};
