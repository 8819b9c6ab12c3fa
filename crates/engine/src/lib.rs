//! A model of one inference engine, as a machine: what it batches, what it caches, and how long
//! each step takes.
//!
//! A replica is seen from outside as a queue with a strange server: it takes many requests at
//! once, is slowed by each, forgets prefixes under pressure, and sends work back to the queue when
//! memory runs out. [`Engine`] is that server. It batches continuously with a budget of tokens a
//! step and chunked prefill ([`Config`]), keeps KV in pages with a prefix cache ([`KvCache`]), and
//! takes its step times from a roofline with fitted terms ([`Profile`]). A driver serves it over
//! HTTP, a simulator turns thousands of it; both give it the time and the block hashes, and it
//! gives back what happened and when.
//!
//! It deliberately has no weights, no text and no sampling: the driver says how long a reply will
//! be and what its blocks hash to. It models one replica, whatever its tensor parallel degree, also of
//! several engines that step together ([`Ranks`]), and neither speculative decoding nor prefill/decode
//! disaggregation.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod config;
mod cost;
mod gpu;
mod input;
mod kv;
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
pub use kv::{BLOCK_TOKENS, KvCache, blocks_for};
pub use machine::{Engine, Ranks};
pub use model::{Experts, MODELS, Model, WINDOW};
pub use output::{Output, Refusal, StopReason, Timings, Usage};
pub use precision::Precision;
pub use profile::Profile;
pub use stats::Stats;
pub use together::Together;
pub use tuned::{Software, TUNED, Tuned};
