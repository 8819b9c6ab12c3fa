//! Reads the events of a stream in the three dialects, and finds the additions caused by a splice.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::rare::Found;
use super::reply::{Reply, string_after};
use super::sse::{self, Event};
use crate::openai::endpoint::Endpoint;
use crate::openai::opening::{each_choice, event_error};
use crate::openai::raw::{Object, owned, string};
use crate::openai::splice::range;
use crate::openai::told::{ToldError, is_failure};
use crate::openai::usage::Gathered;

static TIMINGS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"timings\""));
/// A member of SGLang's choices that no other engine sends.
static SGLANG: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"matched_stop\""));
static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"finish_reason\""));
static STOP: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"stop_reason\""));
static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"type\""));

const CHUNK: [&str; 3] = ["usage", "choices", "timings"];
const CHOICE: [&str; 2] = ["finish_reason", "index"];
const RESPONSE_EVENT: [&str; 1] = ["response"];
const RESPONSE: [&str; 2] = ["id", "usage"];
const MESSAGE_EVENT: [&str; 2] = ["message", "usage"];

/// Facts about the stream so far.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) endpoint: Endpoint,
    pub(super) usage: Gathered,
    pub(super) response_id: Option<String>,
    pub(super) reply: Option<Reply>,
    pub(super) first: bool,
    pub(super) ended: bool,
    /// Events that contain a part of the reply.
    pub(super) pieces: u32,
    /// The first error that the engine reported.
    pub(super) told: Option<ToldError>,
    /// A bit for each choice that has finished; those from the 128th on share one.
    pub(super) finished: u128,
}

impl Reader {
    /// A reader that continues after this one, for events that may change.
    pub(super) fn after(&self) -> Reader {
        Reader { endpoint: self.endpoint, finished: self.finished, ..Reader::default() }
    }

    /// Whether this many choices have finished.
    pub(super) fn has_finished(&self, choices: u32) -> bool {
        self.finished.count_ones() >= choices.clamp(1, u128::BITS)
    }

    /// Reads one event, which may have the members in `found`, and returns the part of it to remove.
    pub(super) fn event(&mut self, bytes: &[u8], found: Found, undo: bool) -> Option<Range<usize>> {
        let event = sse::parse(bytes);
        let may_fail = found.error || matches!(event.name, b"error" | b"response.failed");
        if may_fail && self.reads_error(&event) {
            return None;
        }
        match self.endpoint {
            Endpoint::Responses => self.response(&event),
            Endpoint::Messages => self.message(&event, found),
            _ => return self.chunk(&event, bytes.len(), found, undo),
        }
        None
    }

    /// Notes an event and whether it contains a part of the reply.
    fn piece(&mut self, is_piece: bool) {
        self.first |= is_piece;
        self.pieces = self.pieces.saturating_add(u32::from(is_piece));
    }

    /// Notes the error that an event reports; false if it reports none.
    fn reads_error(&mut self, event: &Event<'_>) -> bool {
        let json = event.data.as_deref().and_then(|data| std::str::from_utf8(data).ok());
        let Some(json) = json else { return false };
        let error = event_error(kind(event.name, json.as_bytes()), json);
        self.told = self.told.or(error);
        error.is_some()
    }

    /// Notes the choices that finish in a chunk. In nearly all chunks none does.
    fn finish(&mut self, data: &[u8]) {
        let is_null = |at: usize| {
            let value = data[at + FINISH.needle().len()..].trim_ascii_start();
            value.strip_prefix(b":").is_some_and(|v| v.trim_ascii_start().starts_with(b"null"))
        };
        if FINISH.find_iter(data).all(is_null) {
            return;
        }
        let Ok(json) = std::str::from_utf8(data) else { return };
        each_choice(json, |choice| {
            let Ok([reason, index]) = Object::parse(&CHOICE, choice.get()) else { return };
            let reason = reason.and_then(string).filter(|r| !r.is_empty());
            if let Some(reason) = reason {
                if is_failure(reason) {
                    self.told = self.told.or(Some(ToldError::OF_ENGINE));
                }
                let index = index.and_then(|index| index.get().parse().ok());
                self.finished |= 1 << index.unwrap_or(0_u32).min(u128::BITS - 1);
            }
        });
    }

    fn chunk(
        &mut self,
        event: &Event<'_>,
        len: usize,
        found: Found,
        undo: bool,
    ) -> Option<Range<usize>> {
        let data = event.data.as_deref()?;
        if data.trim_ascii() == b"[DONE]" {
            self.ended = true;
            return None;
        }
        self.piece(true);
        self.finish(data);
        if let Some(reply) = &mut self.reply {
            reply.chunk(self.endpoint, data, found);
        }
        if found.timings {
            self.timings(data);
        }
        if found.usage { self.usage(event, data, len, undo) } else { None }
    }

    /// Reads a chunk that mentions usage, and returns the part that the splice added.
    fn usage(
        &mut self,
        event: &Event<'_>,
        data: &[u8],
        len: usize,
        undo: bool,
    ) -> Option<Range<usize>> {
        let json = std::str::from_utf8(data).ok()?;
        let [usage, choices, _] = Object::parse(&CHUNK, json).ok()?;
        let usage = usage?.get();
        if usage != "null" {
            self.usage.add(usage.as_bytes());
            // Usage in a chunk with a choice was not requested: llama.cpp's last chunk of a
            // completion.
            let empty = choices.is_some_and(|c| c.get()[1..].trim_ascii_start() == "]");
            return (undo && empty).then_some(0..len);
        }
        // OpenAI sends nulls when asked for usage, SGLang always.
        if !undo || SGLANG.find(data).is_some() {
            return None;
        }
        let member = member(json, usage, "\"usage\"")?;
        let at = event.data_at?;
        Some(at + member.start..at + member.end)
    }

    /// llama.cpp's timings contain the same numbers as usage, without being requested.
    fn timings(&mut self, data: &[u8]) {
        let Ok(json) = std::str::from_utf8(data) else { return };
        if let Ok([_, _, Some(timings)]) = Object::parse(&CHUNK, json) {
            self.usage.add_timings(timings.get().as_bytes());
        }
    }

    fn response(&mut self, event: &Event<'_>) {
        let Some(data) = event.data.as_deref() else { return };
        let kind = kind(event.name, data);
        self.piece(kind.ends_with(b".delta"));
        if let Some(reply) = &mut self.reply {
            reply.response(kind, data);
        }
        let ends =
            matches!(kind, b"response.completed" | b"response.incomplete" | b"response.failed");
        self.ended |= ends;
        if ends || self.response_id.is_none() {
            self.response_object(data);
        }
    }

    fn response_object(&mut self, data: &[u8]) {
        let Ok(json) = std::str::from_utf8(data) else { return };
        let Ok([Some(response)]) = Object::parse(&RESPONSE_EVENT, json) else { return };
        let Ok([id, usage]) = Object::parse(&RESPONSE, response.get()) else { return };
        self.response_id = id.and_then(owned).or(self.response_id.take());
        if let Some(usage) = usage {
            self.usage.add(usage.get().as_bytes());
        }
    }

    fn message(&mut self, event: &Event<'_>, found: Found) {
        let Some(data) = event.data.as_deref() else { return };
        let kind = kind(event.name, data);
        self.piece(kind == b"content_block_delta");
        self.ended |= kind == b"message_stop";
        if kind == b"message_delta" && string_after(&STOP, data).is_some() {
            self.finished |= 1;
        }
        if let Some(reply) = &mut self.reply {
            reply.message(kind, data);
        }
        if !found.usage {
            return;
        }
        let Ok(json) = std::str::from_utf8(data) else { return };
        let Ok([message, usage]) = Object::parse(&MESSAGE_EVENT, json) else { return };
        let inner = message.and_then(|m| Object::parse(&MESSAGE_EVENT, m.get()).ok());
        if let Some(usage) = usage.or(inner.and_then(|slots| slots[1])) {
            self.usage.add(usage.get().as_bytes());
        }
    }
}

/// Whether an event is llama.cpp's last chunk of a chat without its `timings`. If usage was
/// requested, llama.cpp moves them to the chunk after it, and undoing the splice has to move them
/// back.
pub(super) fn awaits_timings(event: &[u8]) -> bool {
    event.starts_with(b"data: {\"choices\":[{\"finish_reason\":\"") && TIMINGS.find(event).is_none()
}

/// The member `timings` of a chunk, with a comma before it.
pub(super) fn timings_member(event: &[u8]) -> Option<Vec<u8>> {
    let event = sse::parse(event);
    let json = std::str::from_utf8(event.data.as_deref()?).ok()?;
    let [_, _, timings] = Object::parse(&CHUNK, json).ok()?;
    Some([b",\"timings\":", timings?.get().as_bytes()].concat())
}

/// The kind of an event: its name, or the first `type` of its data.
fn kind<'a>(name: &'a [u8], data: &'a [u8]) -> &'a [u8] {
    if name.is_empty() { string_after(&TYPE, data).unwrap_or_default() } else { name }
}

/// The range of the member `key` whose value is the slice `value` of `json`, with its comma. `None`
/// if the key is spelled in another way.
pub(in crate::openai) fn member(json: &str, value: &str, key: &str) -> Option<Range<usize>> {
    let Range { start, end } = range(json, value);
    let before = json[..start].trim_ascii_end().strip_suffix(':')?.trim_ascii_end();
    let before = before.strip_suffix(key)?;
    if let Some(rest) = before.trim_ascii_end().strip_suffix(',') {
        return Some(rest.len()..end);
    }
    let after = json[end..].trim_ascii_start();
    let after = after.strip_prefix(',').map_or(after, str::trim_ascii_start);
    Some(before.len()..json.len() - after.len())
}
