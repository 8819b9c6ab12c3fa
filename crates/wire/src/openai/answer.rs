//! An answer as it passes: scanned for usage, first token, end and text, never delayed.
//!
//! The bytes go on as they came. Where the request was spliced to ask for usage, what that added
//! to the stream is taken out: the chunk that holds nothing but usage, and the `usage` members of
//! the others. For that an event that is not whole yet is held until its end comes; without a
//! splice nothing is ever held. Ordinary token chunks cost a substring search; only a chunk that
//! speaks of usage is parsed.
//!
//! One whole event is ever held, and only with a splice: llama.cpp's last chunk of a chat, which has
//! no token in it, waits for the chunk of usage that follows in the same write, since asking for
//! usage moves `timings` from the one to the other.
//!
//! An event longer than [`MAX_EVENT`] passes unread. Lines end in LF or CRLF; the lone CR of the
//! event-stream standard, which no engine sends, is not known here.

mod json;
mod reader;
mod reply;
pub(super) mod sse;
mod stream;

use bytes::Bytes;

use super::endpoint::Endpoint;
use super::usage::Usage;
use json::Json;
pub(super) use reader::member;
use stream::Stream;

/// The longest event that is read, and with a splice held, in bytes.
pub const MAX_EVENT: usize = 1 << 20;

/// The most bytes of a reply that are collected.
pub const MAX_REPLY: usize = 256 << 10;

/// Scans one answer. See the [module](self).
pub struct Answer(Form);

enum Form {
    Stream(Stream),
    Json(Json),
}

/// What became of one piece of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// What to pass on now, often the very bytes that were fed; it may be empty.
    pub pass: Bytes,
    /// The first token came with this piece. At most once an answer.
    pub first_token: bool,
    /// The end of the answer came with this piece: `[DONE]`, `message_stop`,
    /// `response.completed`, or the closing brace of a JSON body. At most once an answer.
    pub ended: bool,
}

/// What is known of an answer when its last byte has come.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// What is still to be passed on: an event that was held and never finished.
    pub rest: Bytes,
    /// Tokens, where the engine told them.
    pub usage: Option<Usage>,
    /// The id of a `/v1/responses` answer, by which a later request may continue it.
    pub response_id: Option<String>,
    /// Whether the answer came to its own end.
    pub complete: bool,
    /// The assistant's words and tool calls, as [`push_reply`](super::push_reply) takes them; at
    /// most [`MAX_REPLY`] bytes. `None` when they were not asked for.
    pub reply: Option<Vec<u8>>,
}

/// The reply is text of a user's conversation, so a debug print shows its length only.
impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary")
            .field("rest", &self.rest.len())
            .field("usage", &self.usage)
            .field("response_id", &self.response_id)
            .field("complete", &self.complete)
            .field("reply", &self.reply.as_ref().map(Vec::len))
            .finish()
    }
}

impl Answer {
    /// A scanner for one answer: `stream` when it comes as events, `undo_usage` when the request
    /// was spliced, `collect_reply` when the text is wanted.
    #[must_use]
    pub fn new(endpoint: Endpoint, stream: bool, undo_usage: bool, collect_reply: bool) -> Answer {
        Answer(if stream {
            Form::Stream(Stream::new(endpoint, undo_usage, collect_reply))
        } else {
            Form::Json(Json::new(endpoint, collect_reply))
        })
    }

    /// Takes the next bytes of the answer.
    pub fn feed(&mut self, chunk: Bytes) -> Feed {
        match &mut self.0 {
            Form::Stream(stream) => stream.feed(chunk),
            Form::Json(json) => json.feed(chunk),
        }
    }

    /// Events so far that have a part of the reply, mostly one a token; 0 for an answer that is no
    /// stream.
    #[must_use]
    pub fn pieces(&self) -> u32 {
        match &self.0 {
            Form::Stream(stream) => stream.pieces(),
            Form::Json(_) => 0,
        }
    }

    /// The sum, when no more bytes come.
    #[must_use]
    pub fn finish(self) -> Summary {
        match self.0 {
            Form::Stream(stream) => stream.finish(),
            Form::Json(json) => json.finish(),
        }
    }
}
