//! KV between engines: one prefills a prompt, another fetches the blocks and decodes.
//!
//! The protocol towards clients is that of vLLM's NIXL connector: `kv_transfer_params` in a request
//! says which leg it is, and in the answer of a prefill leg where its blocks are. Between engines a
//! side channel of our own carries reads, lease renewals and releases ([`wire`]), and the KV itself,
//! as bytes that both engines derive from the prompt ([`content`]). The bytes are fewer than a real
//! model's, and the time is the real one ([`link`]).
//!
//! It differs from vLLM where vLLM answers wrongly or dies: wrong KV is detected on arrival, reading
//! blocks after their lease has ended fails, and params that would end a vLLM process get a 400.
//! Only the pull mode exists, without KV that goes back to the prefilling engine.

mod blocks;
mod budget;
mod call;
mod content;
mod exports;
mod fetch;
mod gated;
mod heartbeat;
mod legs;
mod link;
mod metrics;
mod network;
mod options;
mod outgate;
mod params;
mod routes;
mod serve;
mod shared;
mod wire;

pub(crate) use budget::left;
pub(crate) use exports::{Exports, Read};
pub(crate) use fetch::{FetchError, Import};
pub(crate) use legs::{Legs, Part, Running};
pub(crate) use metrics::KvMetrics;
pub use network::Network;
pub use options::{LoadFailure, Role, Transfer};
pub(crate) use params::{Params, Remote};
pub use routes::{Route, Routes};
pub(crate) use serve::listen;
pub(crate) use shared::{Export, Shared};
pub(crate) use wire::{Denial, Op};
