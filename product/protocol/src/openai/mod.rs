//! Reads the facts that a gateway needs from an OpenAI-compatible request and its answer.
//!
//! Requests and answers pass through unchanged, byte for byte. The gateway also needs a few facts:
//! the model, a fingerprint of the prompt, whether the answer streams, how many tokens it took. The
//! functions here read those facts from bytes. They own no socket, no clock and no unbounded
//! buffer. They change a body only through a few named splices ([`Splices`]):
//! - name the model as engines serve it, where the client uses an alias;
//! - cut out the engines' private fields ([`EngineField`]);
//! - ask for usage, which [`Answer`] removes again from the response;
//! - add a salt that separates tenants;
//! - limit the prefill leg of a request, and insert the members of the protocol between the two
//!   legs ([`prefill_leg`], [`crate::legs`]);
//! - for streams that may be resumed on another replica, see [`Thread`].
//!
//! They do not validate a request for the engine: unknown fields pass, and fields that only the
//! engine needs are left to it.

mod answer;
mod ask_usage;
mod bad;
mod billing;
mod body;
mod elsewhere;
mod encoding;
mod endpoint;
mod engine_fields;
mod error;
mod members;
mod models;
mod no_leg;
mod opening;
mod prefill;
mod prompt;
pub(crate) mod raw;
mod refuse;
mod request;
mod resume;
mod salt;
mod session;
mod splice;
mod strip;
pub(crate) mod text;
mod told;
mod unserved;
pub(crate) mod usage;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Feed, MAX_EVENT, MAX_REPLY, Summary, told_by_answer};
pub use bad::BadRequest;
pub use elsewhere::Head;
pub use encoding::without_mark;
pub use endpoint::{Endpoint, STATELESS, stored_response};
pub use engine_fields::EngineField;
pub use error::{anthropic_error_json, error_body, error_event, error_event_of, error_json};
pub use models::{
    BadModels, Model, find_model, is_model_missing, merge_models, model_ids, model_list,
};
pub use no_leg::NoPrefillLeg;
pub use opening::{MAX_OPENING, Opened, Opening, begins_event};
pub use prefill::prefill_leg;
pub use prompt::push_reply;
pub use request::{Reading, RequestInfo, read, read_as};
pub use resume::{Continued, Counts, Lost, Thread};
pub use splice::{Pieces, Purpose, Splice, Splices};
pub use told::{ToldError, told_error};
pub use unserved::remedy;
pub use usage::Usage;
