//! What a replica says about its own load: metrics pages, capacity pages, the ORCA response
//! header and the usage object of an answer, read into one vocabulary.
//!
//! Every engine publishes the same few facts under other names: how many requests it has accepted
//! and not yet batched, how many it runs, how full its KV cache is. A routing decision needs these
//! and nothing else, so a page of 50 kB is walked once, line by line, and only the lines that
//! carry a needed name are looked into; nothing is allocated unless the page is wrong.
//!
//! The functions here are pure: bytes in, numbers out. They fetch nothing, keep no state between
//! pages, and do not judge staleness; the gateway does. They also do not read KV events.
//!
//! # The KV share of several ranks is their mean
//!
//! A data-parallel replica reports one KV share per rank. [`Load::kv_used`] is their mean: ranks of
//! one replica have equal capacity, so the mean is the used share of the whole, in step with
//! [`Load::kv_tokens`], which is the sum; and the engine itself places a new request on its least
//! loaded rank, so one full rank does not close the replica. The maximum would.

mod capacity;
mod detect;
mod error;
mod llamacpp;
mod load;
mod orca;
mod page;
mod sglang;
mod tgi;
mod usage;
mod vllm;

#[cfg(test)]
mod tests;

pub use capacity::capacity;
pub use detect::{Answers, detect};
pub use error::SignalError;
pub use load::Load;
pub use orca::{ORCA_REQUEST_HEADER, ORCA_RESPONSE_HEADER, orca};
pub use usage::{Timings, Usage, usage};

/// The software in a replica, as far as its signals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// vLLM, v0 and v1 names, and everything that speaks them (our own engine model does).
    Vllm,
    /// SGLang, with the `sglang:` or the `sglang_` prefix.
    Sglang,
    /// llama.cpp's HTTP server.
    LlamaCpp,
    /// Hugging Face text-generation-inference.
    Tgi,
    /// Any other OpenAI-compatible server: it has no signals, only our own accounting.
    None,
}

impl Engine {
    /// The engine's name in configuration, metrics and status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::LlamaCpp => "llamacpp",
            Self::Tgi => "tgi",
            Self::None => "none",
        }
    }

    /// The engine of a configured name; `auto` is not one, it is the question.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Vllm, Self::Sglang, Self::LlamaCpp, Self::Tgi, Self::None]
            .into_iter()
            .find(|engine| engine.name() == name)
    }

    /// The path that a probe asks for and [`read`] understands; none where there are no signals.
    pub fn probe_path(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            _ => Some("/metrics"),
        }
    }

    /// The path that tells the capacity, for [`capacity()`]. vLLM keeps it on the probe page itself,
    /// where [`read`] already finds it. llama.cpp's also carries the KV use of the moment, so a
    /// gateway that wants it asks for this page along with each probe.
    pub fn capacity_path(self) -> Option<&'static str> {
        match self {
            Self::Vllm => Some("/metrics"),
            Self::Sglang => Some("/server_info"),
            Self::LlamaCpp => Some("/slots"),
            Self::Tgi => Some("/info"),
            Self::None => None,
        }
    }
}

/// Reads the page at [`Engine::probe_path`].
///
/// On success `pending` and `running` are known; the other fields as far as the engine tells them.
/// For [`Engine::None`] nothing is known and that is not an error.
pub fn read(engine: Engine, page: &[u8]) -> Result<Load, SignalError> {
    match engine {
        Engine::Vllm => vllm::read(page),
        Engine::Sglang => sglang::read(page),
        Engine::LlamaCpp => llamacpp::read(page),
        Engine::Tgi => tgi::read(page),
        Engine::None => Ok(Load::default()),
    }
}
