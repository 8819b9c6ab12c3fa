//! The beginning of an answer, up to the first event that says something.
//!
//! Comments, and events without content such as a chat's role or `message_start`, commit an engine
//! to nothing: it may die after them, or report an error. So they are kept back until content, an
//! error or the end arrives; until then the request can be sent to another replica unnoticed.

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use std::sync::LazyLock;

use super::answer::{sse, string_after};
use super::endpoint::Endpoint;
use super::members::{Members, is_nothing};
use super::raw::{Object, elements, given, string};
use super::told::{ToldError, is_failure, names_error, told_error};

static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"type\""));
static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"content\""));
/// Of an event that reports an error, beside the word itself, unless it has a name.
static FAILURES: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new(b"\"abort\""), Finder::new(b"response.failed")]);

/// Most bytes kept back. A beginning that is longer counts as content.
pub const MAX_OPENING: usize = 64 << 10;

/// Reads the beginning of a stream of events.
pub struct Opening {
    endpoint: Endpoint,
    /// The pieces so far, unless the first one decides.
    kept: BytesMut,
    /// Where the first event begins that was not read yet.
    at: usize,
}

/// The beginning of an answer, decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// There is content. These are all bytes so far, unchanged.
    Content(Bytes),
    /// The engine reports an error before any content.
    Error {
        /// The error.
        error: ToldError,
        /// Its JSON object.
        json: Bytes,
        /// All bytes so far, unchanged.
        all: Bytes,
    },
    /// The end mark came before any content.
    Empty,
}

/// What one event says.
enum Says {
    Nothing,
    Content,
    Error(ToldError, Vec<u8>),
    End,
}

impl Opening {
    /// The beginning of a stream of `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Opening {
        Opening { endpoint, kept: BytesMut::new(), at: 0 }
    }

    /// Takes the next bytes; none while they decide nothing. Bytes that decide at once are not
    /// copied.
    pub fn feed(&mut self, piece: Bytes) -> Option<Opened> {
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(&piece);
        }
        let bytes: &[u8] = if self.kept.is_empty() { &piece } else { &self.kept };
        let (mut at, mut says) = (self.at, Says::Nothing);
        while let (Says::Nothing, Some(len)) = (&says, sse::event_end(&bytes[at..], 0)) {
            says = self.says(&bytes[at..at + len]);
            at += len;
        }
        self.at = at;
        if matches!(says, Says::Nothing) && bytes.len() >= MAX_OPENING {
            says = Says::Content;
        }
        if matches!(says, Says::Nothing) {
            if self.kept.is_empty() {
                self.kept.extend_from_slice(&piece);
            }
            return None;
        }
        let all = if self.kept.is_empty() { piece } else { self.kept.split().freeze() };
        Some(opened(says, all))
    }

    /// The answer ended; its last event may lack its blank line.
    #[must_use]
    pub fn end(self) -> Opened {
        let last = &self.kept[self.at..];
        let says = if last.trim_ascii().is_empty() { Says::End } else { self.says(last) };
        opened(if matches!(says, Says::Nothing) { Says::End } else { says }, self.kept.freeze())
    }

    fn says(&self, event: &[u8]) -> Says {
        let event = sse::parse(event);
        let Some(data) = event.data.as_deref() else { return Says::Nothing };
        if data.trim_ascii() == b"[DONE]" {
            return Says::End;
        }
        // What is not an engine's event passes as it is.
        let Ok(json) = std::str::from_utf8(data) else { return Says::Content };
        let kind = match event.name {
            b"" => string_after(&TYPE, data).unwrap_or_default(),
            name => name,
        };
        let may_fail = !event.name.is_empty()
            || names_error(data)
            || FAILURES.iter().any(|word| word.find(data).is_some());
        if may_fail && let Some(error) = event_error(kind, json) {
            return Says::Error(error, data.to_vec());
        }
        let is_content = match self.endpoint {
            Endpoint::Responses => !RESPONSE_OPENING.contains(&kind),
            Endpoint::Messages => !MESSAGE_OPENING.contains(&kind),
            // The usual first token of a chat, which need not be parsed.
            _ => {
                string_after(&CONTENT, data).is_some_and(|text| !text.is_empty())
                    || chunk_has_content(json)
            }
        };
        if is_content { Says::Content } else { Says::Nothing }
    }
}

/// Whether the first bytes of an answer are those of an event, and not of JSON.
#[must_use]
pub fn begins_event(bytes: &[u8]) -> bool {
    let bytes = sse::unmarked(bytes).trim_ascii_start();
    FIELDS.iter().any(|field| bytes.starts_with(field))
}

/// Fields of events, and comments.
const FIELDS: [&[u8]; 4] = [b"data:", b"event:", b"error:", b":"];

fn opened(says: Says, all: Bytes) -> Opened {
    match says {
        Says::Error(error, json) => Opened::Error { error, json: json.into(), all },
        Says::Content => Opened::Content(all),
        Says::Nothing | Says::End => Opened::Empty,
    }
}

/// Events of `/v1/responses` before the first content.
const RESPONSE_OPENING: [&[u8]; 5] = [
    b"response.created",
    b"response.queued",
    b"response.in_progress",
    b"response.output_item.added",
    b"response.content_part.added",
];
/// Events of `/v1/messages` before the first content.
const MESSAGE_OPENING: [&[u8]; 3] = [b"message_start", b"content_block_start", b"ping"];

/// The error that an event of this kind reports.
pub(super) fn event_error(kind: &[u8], json: &str) -> Option<ToldError> {
    match kind {
        b"response.failed" => {
            let response = Members::of(json)?.get("response")?;
            Some(told_error(response.get()).unwrap_or(ToldError::OF_ENGINE))
        }
        b"error" => Some(told_error(json).unwrap_or(ToldError::OF_ENGINE)),
        _ => told_error(json).or_else(|| failed_choice(json)),
    }
}

/// The failure of a chunk whose choice ends with one.
fn failed_choice(json: &str) -> Option<ToldError> {
    let mut failed = false;
    each_choice(json, |choice| {
        let reason = Object::parse(&["finish_reason"], choice.get());
        failed |= reason.is_ok_and(|[reason]| reason.and_then(string).is_some_and(is_failure));
    })?;
    failed.then_some(ToldError::OF_ENGINE)
}

/// Whether a chunk of a chat or a completion has content: text, a tool call, a finish reason, the
/// usage that ends a stream, or llama.cpp's progress of the prompt, which a client asks for. The role of a chat has
/// none, and neither has the usage beside it.
fn chunk_has_content(json: &str) -> bool {
    let (mut has, mut choices) = (false, 0);
    let read = each_choice(json, |choice| {
        let Some(choice) = Members::of(choice.get()) else { return };
        choices += 1;
        let delta = choice.get("delta").map(|delta| Members::of(delta.get()));
        has |= match delta {
            Some(Some(delta)) => !delta.nothing_but(&["role"]),
            Some(None) => true,
            None => false,
        };
        has |= !choice.nothing_but(&["index", "delta", "logprobs"]);
    });
    let says =
        |name| Members::of(json).and_then(|top| top.get(name)).is_some_and(|v| !is_nothing(v));
    read.is_none() || has || (choices == 0 && says("usage")) || says("prompt_progress")
}

/// Hands each choice of a chunk to `each`; none if it is not a chunk.
pub(super) fn each_choice<'a>(json: &'a str, mut each: impl FnMut(&'a RawValue)) -> Option<()> {
    let [choices] = Object::parse(&["choices"], json).ok()?;
    elements(given(choices)?, "choices", |choice| {
        each(choice);
        Ok(())
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n";
    const USAGE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}],\"usage\":{\"prompt_tokens\":3}}\n\n";
    const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    const ERROR: &str = "data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\n";

    /// Feeds a stream in two pieces, cut at every place, and returns what it opens with.
    fn opens(endpoint: Endpoint, stream: &str) -> Opened {
        let once = |cut: usize| {
            let mut opening = Opening::new(endpoint);
            for piece in [&stream[..cut], &stream[cut..]] {
                if let Some(opened) = opening.feed(Bytes::copy_from_slice(piece.as_bytes())) {
                    return opened;
                }
            }
            opening.end()
        };
        let whole = once(0);
        for cut in 1..stream.len() {
            let same = std::mem::discriminant(&once(cut)) == std::mem::discriminant(&whole);
            assert!(same, "cut at {cut}: {:?} and {whole:?}", once(cut));
        }
        whole
    }

    fn is_content(endpoint: Endpoint, stream: &str) -> bool {
        matches!(opens(endpoint, stream), Opened::Content(all) if all.len() <= stream.len())
    }

    // Defect comments-commit: comments, empty events and a chat's role are no content, so a replica
    // that ends after them has failed before the first token.
    #[test]
    fn beginnings_without_content() {
        let chat = Endpoint::ChatCompletions;
        for start in [
            "",
            ": keep-alive\n\n",
            "\n\n",
            "event: ping\n\n",
            ROLE,
            USAGE,
            "data: {\"choices\":[]}\n\n",
        ] {
            assert_eq!(opens(chat, start), Opened::Empty, "{start}");
            assert_eq!(opens(chat, &format!("{start}data: [DONE]\n\n")), Opened::Empty, "{start}");
            assert!(is_content(chat, &format!("{start}{TEXT}")), "{start}");
        }
        let messages =
            "event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: ping\ndata: {}\n\n";
        assert_eq!(opens(Endpoint::Messages, messages), Opened::Empty);
        let created = "event: response.created\ndata: {\"type\":\"response.created\"}\n\n";
        assert_eq!(opens(Endpoint::Responses, created), Opened::Empty);
    }

    // Content is whatever a client would notice: text, tool calls, reasoning, a finish reason, usage,
    // and anything that is not an engine's event.
    #[test]
    fn content() {
        let chat = Endpoint::ChatCompletions;
        for data in [
            r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
            r#"{"choices":[{"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":9}}"#,
            r#"{"token":1}"#,
            "hello",
        ] {
            assert!(is_content(chat, &format!("{ROLE}data: {data}\n\n")), "{data}");
        }
        assert!(is_content(Endpoint::Completions, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"));
        assert!(is_content(Endpoint::Messages, "event: content_block_delta\ndata: {}\n\n"));
        assert!(is_content(
            Endpoint::Responses,
            "data: {\"type\":\"response.output_text.delta\"}\n\n"
        ));
    }

    // Defect error-in-200: an error event before any content is the answer's error.
    #[test]
    fn errors() {
        let status = |endpoint, stream: &str| match opens(endpoint, stream) {
            Opened::Error { error, all, .. } => (error.status, all.len() == stream.len()),
            other => panic!("{other:?}"),
        };
        let chat = Endpoint::ChatCompletions;
        assert_eq!(status(chat, ERROR), (500, true));
        assert_eq!(status(chat, &format!(": x\n\n{ROLE}{ERROR}")), (500, true));
        let aborted = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"abort\"}]}\n\n";
        assert_eq!(status(chat, aborted), (500, true));
        let failed = "event: response.failed\ndata: {\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\"}}}\n\n";
        assert_eq!(status(Endpoint::Responses, failed), (500, true));
        let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
        assert_eq!(status(Endpoint::Messages, overloaded), (503, true));
    }

    // A beginning that is too long to keep back is content.
    #[test]
    fn too_long() {
        let mut opening = Opening::new(Endpoint::ChatCompletions);
        let comment = Bytes::from(format!(": {}\n\n", "x".repeat(1000)));
        let fed = (0..100).find_map(|_| opening.feed(comment.clone()));
        assert!(matches!(fed, Some(Opened::Content(all)) if all.len() >= MAX_OPENING));
    }
}
