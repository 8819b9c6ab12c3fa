//! Prefill clusters: models that compute prompts on a fabric, and the transfers that compete there.
//!
//! A request is placed on a replica of its model, waits for a batch, fetches the prefix that others
//! have (stage 1), is computed layer by layer with an exchange between ranks in each (stage 2), and
//! sends its KV to a decode replica (stage 3); then comes its first token. Transfers are flows of a
//! [`meridian_fabric::Network`], prioritised by the flow machine of [`meridian_flow`]. A [`Setup`]
//! defines a run completely, and [`run`] turns it into a [`Report`]. The same setup gives the same
//! report, byte for byte.
//!
//! [`given()`] runs single flows, without models, over the same machine and network.
//!
//! It does not model decode beyond its first step, KV of replies, eviction, abandoned requests, or
//! packets (see the network's own limits). KV and experts stay where the model puts them; nothing
//! moves to free memory.

mod batch;
mod compute;
mod exchange;
mod form;
mod geometry;
mod given;
mod kv;
mod layers;
mod nodes;
mod objective;
mod patterns;
mod reduce;
mod report;
mod sending;
mod setup;
mod watch;
mod wires;
mod world;

pub use geometry::fold;
pub use given::{Given, GivenFlow, GivenRequest, given};
pub use report::{GivenReport, Holding, Mean, Ran, Record, Report, Slice};
pub use sending::Enforce;
pub use setup::{Base, Control, Impossible, Parallel, Pool, Request, Setup, Tiers, Watch};
pub use world::run;

#[cfg(test)]
mod tests;
