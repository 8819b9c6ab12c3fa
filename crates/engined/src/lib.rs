//! The engine model behind vLLM's HTTP API.
//!
//! To a gateway this is a vLLM: the same paths, stream events, usage with `cached_tokens`, metric
//! names, load header and error bodies. Behind them is [`meridian_engine::Engine`] on a clock, so a
//! laptop can be a fleet of GPUs as far as queueing, batching and prefix caching go. The text of a
//! reply is made up: words of three letters, one a token, the same for the same prompt and seed. A
//! reply with a cap (`max_tokens`) fills it, so that a bench knows what it asked for; a chat without
//! one ends by itself.
//!
//! One task owns the machine (`pump.rs`); connection tasks send it requests and read their progress
//! from a mailbox each. Tokens due at one instant are one chunk on the wire.
//!
//! It deliberately has no tokenizer (a token is four bytes), no authentication and no TLS: it is a
//! stand-in for try-outs, tests and benches, and listens on loopback unless told otherwise.

mod api;
mod body;
mod chat;
mod clock;
mod error;
mod histogram;
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
pub use meridian_engine as engine;
pub use options::Options;
pub use server::serve;
pub use service::Service;
