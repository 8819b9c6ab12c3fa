//! What a gateway has to know of an OpenAI-compatible request and of its answer.
//!
//! Requests and answers travel unchanged, byte for byte. Beside them the gateway needs a handful
//! of facts: the model, a fingerprint of the prompt, whether the answer streams, how many tokens
//! it took. The functions here read those facts from bytes and own no socket, no clock and no
//! buffer that is not bounded. What they change are a few named splices ([`Splices`]): the engines'
//! own fields are cut out ([`EngineField`]), usage is asked for, which [`Answer`] takes out again on
//! the way back, a salt keeps tenants apart; and, where a broken stream is to be gone on with
//! elsewhere, what [`Thread`] tells.
//!
//! They do not validate a request for the engine: unknown fields pass, and what only the engine
//! cares about is left to it.

mod answer;
mod ask_usage;
mod bad;
mod body;
mod encoding;
mod endpoint;
mod engine_fields;
mod error;
mod models;
mod prompt;
mod raw;
mod refuse;
mod request;
mod resume;
mod salt;
mod splice;
mod strip;
mod text;
mod usage;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Feed, MAX_EVENT, MAX_REPLY, Summary};
pub use bad::BadRequest;
pub use endpoint::Endpoint;
pub use engine_fields::EngineField;
pub use error::{anthropic_error_json, error_body, error_event, error_json};
pub use models::{BadModels, Model, find_model, merge_models, model_ids, model_list};
pub use prompt::push_reply;
pub use request::{Reading, RequestInfo, read};
pub use resume::{Continued, Counts, Lost, Thread};
pub use splice::{Pieces, Purpose, Splice, Splices};
pub use usage::Usage;
