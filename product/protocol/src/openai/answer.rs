//! Scans an answer for usage, first token, end and text while it streams, without delaying it.
//!
//! Bytes pass through unchanged. If the request was spliced to ask for usage, the additions to the
//! stream are removed: the chunk that holds only usage, and the `usage` members of the others. For
//! that, an incomplete event is buffered until its end arrives; without a splice nothing is
//! buffered. Ordinary token chunks cost a substring search; only a chunk that mentions usage is
//! parsed.
//!
//! Only one complete event is ever buffered, and only with a splice: llama.cpp's last chunk of a
//! chat, which has no token in it. It waits for the chunk of usage that follows in the same write,
//! since asking for usage moves `timings` from the one to the other.
//!
//! An answer to a request that used an alias shows the alias in place of the engine's name of the
//! model (`rename.rs`).
//!
//! An event longer than [`MAX_EVENT`] passes unread. Lines end in LF or CRLF. The lone CR of the
//! event-stream standard, which no engine sends, is not supported.

mod json;
mod rare;
mod reader;
mod rename;
mod reply;
pub(super) mod sse;
mod stream;

use bytes::Bytes;

use super::endpoint::Endpoint;
use super::told::ToldError;
use super::usage::Usage;
use json::Json;
pub use json::told_by_answer;
pub(super) use reader::member;
use rename::Rename;
pub(super) use reply::string_after;
use stream::Stream;

/// The longest event that is read (and buffered, with a splice), in bytes.
pub const MAX_EVENT: usize = 1 << 20;

/// Most bytes of a reply that are collected.
pub const MAX_REPLY: usize = 256 << 10;

/// Scans one answer. See the [module](self).
pub struct Answer(Form);

#[expect(clippy::large_enum_variant, reason = "a box would cost each answer an allocation")]
enum Form {
    Stream(Stream),
    Json(Json),
}

/// The result of scanning one piece of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// Bytes to pass on now, often the very bytes that were fed; may be empty.
    pub pass: Bytes,
    /// The first token is in this piece. At most once an answer.
    pub first_token: bool,
    /// The end of the answer is in this piece: `[DONE]`, `message_stop`, `response.completed`, or
    /// the closing brace of a JSON body. At most once an answer.
    pub ended: bool,
    /// The error that the engine reports in this piece, the first of the answer's. `pass` has it,
    /// unless the answer [keeps errors](Answer::keeping_errors).
    pub told: Option<ToldError>,
}

/// Facts about an answer after its last byte.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes still to be forwarded: an error that was kept, and a buffered event that never finished.
    pub rest: Bytes,
    /// Token counts, if the engine reported them.
    pub usage: Option<Usage>,
    /// The id of a `/v1/responses` answer. A later request may continue it by this id.
    pub response_id: Option<String>,
    /// Whether the answer was complete.
    pub complete: bool,
    /// The error that the engine reported in it.
    pub told: Option<ToldError>,
    /// The assistant's text and tool calls, as [`push_reply`](super::push_reply) takes them; at
    /// most [`MAX_REPLY`] bytes. `None` if not requested.
    pub reply: Option<Vec<u8>>,
}

/// The reply is text of a user's conversation, so a debug print shows only its length.
impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary")
            .field("rest", &self.rest.len())
            .field("usage", &self.usage)
            .field("response_id", &self.response_id)
            .field("complete", &self.complete)
            .field("told", &self.told)
            .field("reply", &self.reply.as_ref().map(Vec::len))
            .finish()
    }
}

impl Answer {
    /// A scanner for one answer: `stream` if it is a stream of events, `undo_usage` if the request
    /// was spliced, `collect_reply` if the text is needed.
    #[must_use]
    pub fn new(endpoint: Endpoint, stream: bool, undo_usage: bool, collect_reply: bool) -> Answer {
        Answer(if stream {
            Form::Stream(Stream::new(endpoint, undo_usage, collect_reply))
        } else {
            Form::Json(Json::new(endpoint, collect_reply))
        })
    }

    /// The same, with `name` in place of the engine's name of the model wherever the answer has
    /// it. Incomplete events are buffered for that.
    #[must_use]
    pub fn naming(mut self, name: Option<&str>) -> Answer {
        if let Some(name) = name {
            let name = Bytes::from(serde_json::to_vec(name).expect("a string always serializes"));
            match &mut self.0 {
                Form::Stream(stream) => stream.name = Some(name),
                Form::Json(json) => json.rename = Some(Rename::new(name)),
            }
        }
        self
    }

    /// The same for an answer with this many choices. A stream whose choices have all finished is
    /// complete without its end mark.
    #[must_use]
    pub fn choices(mut self, choices: u32) -> Answer {
        if let Form::Stream(stream) = &mut self.0 {
            stream.choices = choices;
        }
        self
    }

    /// The same, and an error event and all that follows it are kept for [`Summary::rest`].
    /// Incomplete events are buffered for that.
    #[must_use]
    pub fn keeping_errors(mut self) -> Answer {
        if let Form::Stream(stream) = &mut self.0 {
            stream.keeps_errors = true;
        }
        self
    }

    /// Takes the next bytes of the answer.
    pub fn feed(&mut self, chunk: Bytes) -> Feed {
        match &mut self.0 {
            Form::Stream(stream) => stream.feed(chunk),
            Form::Json(json) => json.feed(chunk),
        }
    }

    /// Events so far that contain a part of the reply, mostly one per token; 0 for an answer that
    /// is not a stream.
    #[must_use]
    pub fn pieces(&self) -> u32 {
        match &self.0 {
            Form::Stream(stream) => stream.pieces(),
            Form::Json(_) => 0,
        }
    }

    /// The id of a stored response, once its stream has named it.
    #[must_use]
    pub fn response_id(&self) -> Option<&str> {
        match &self.0 {
            Form::Stream(stream) => stream.response_id(),
            Form::Json(_) => None,
        }
    }

    /// Whether nothing is missing if the answer ends here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            Form::Stream(stream) => stream.is_complete(),
            Form::Json(json) => json.is_complete(),
        }
    }

    /// The summary, after the last byte.
    #[must_use]
    pub fn finish(self) -> Summary {
        match self.0 {
            Form::Stream(stream) => stream.finish(),
            Form::Json(json) => json.finish(),
        }
    }
}
