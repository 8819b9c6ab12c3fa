//! A model of one inference engine, as a machine: its batching, its prefix cache, and the time of
//! each step.
//!
//! From outside, a replica is a queue with an unusual server: it serves many requests at once,
//! slows down with each, evicts prefixes under memory pressure, and preempts requests when memory
//! runs out. [`Engine`] models that server. It does continuous batching with a token budget per
//! step and chunked prefill ([`Config`]), keeps KV in pages with a prefix cache ([`KvCache`]), and
//! takes its step times from a roofline with fitted terms ([`Profile`]). One driver serves it over
//! HTTP, and a simulator runs thousands of them. Both pass in the time and the block hashes, and
//! get timestamped events back.
//!
//! It deliberately has no weights, no text and no sampling: the driver provides the length of each
//! reply and its block hashes. It models one replica of any tensor parallel degree, including one
//! of several engines that step together ([`Ranks`]) or of a pipeline ([`Stage`]), and either leg of a request that one engine
//! prefills and another decodes ([`Leg`]). It moves no KV: the driver does. It does not model
//! speculative decoding.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod config;
mod cost;
mod gpu;
mod input;
mod kv;
mod leg;
mod machine;
mod model;
mod output;
mod precision;
mod profile;
mod sequence;
mod stats;
mod together;
mod tuned;

pub use config::{Config, ConfigError, Schedule, TokenOutputs};
pub use cost::{Terms, Work};
pub use gpu::{Efficiency, GPUS, Gpu, Source};
pub use input::{Input, Submission};
pub use kv::{BLOCK_TOKENS, KvCache, Table, blocks_for};
pub use leg::Leg;
pub use machine::{Engine, Ranks, Stage, Way};
pub use model::{Experts, MODELS, Model, WINDOW};
pub use output::{Output, Refusal, StopReason, Timings, Usage};
pub use precision::Precision;
pub use profile::Profile;
pub use stats::Stats;
pub use together::Together;
pub use tuned::{Software, TUNED, Tuned};
