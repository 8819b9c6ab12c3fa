//! Prefill clusters: models that compute prompts on a fabric, and the transfers that meet there.
//!
//! A request is placed on a replica of its model, waits for a batch, fetches the prefix that others
//! have (stage 1), is computed layer by layer with an exchange between ranks in each (stage 2), and
//! hands its KV to a decode replica (stage 3); then comes its first token. Transfers are flows of a
//! [`meridian_fabric::Network`], in the order that the flow machine of [`meridian_flow`] gives them.
//! A [`Setup`] says everything about a run, [`run`] turns it into a [`Report`]; one setup, one report,
//! byte for byte.
//!
//! [`given()`] runs single flows, without models, over the same machine and network.
//!
//! What it leaves out: decode beyond its first step, KV of replies, eviction, requests that are given
//! up, and everything that packets do (see the network's own limits). KV and experts are where the
//! model puts them; nothing moves to make room.

mod batch;
mod compute;
mod exchange;
mod form;
mod geometry;
mod given;
mod kv;
mod layers;
mod objective;
mod report;
mod setup;
mod watch;
mod wires;
mod world;

pub use geometry::fold;
pub use given::{Given, GivenFlow, GivenRequest, given};
pub use report::{GivenReport, Holding, Mean, Ran, Record, Report, Slice};
pub use setup::{Impossible, Parallel, Pool, Request, Setup, Tiers, Watch};
pub use world::run;

#[cfg(test)]
mod tests;
