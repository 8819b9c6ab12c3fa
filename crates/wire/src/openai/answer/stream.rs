//! A stream of events: cutting it into events, reading each, leaving out what a splice added.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

use super::reply::{Reply, string_after};
use super::sse::{self, Event};
use super::{Feed, MAX_EVENT, Summary};
use crate::openai::endpoint::Endpoint;
use crate::openai::raw::{Object, owned};
use crate::openai::usage::Gathered;

static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static TIMINGS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"timings\""));
/// A member of SGLang's choices that no other engine sends.
static SGLANG: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"matched_stop\""));
static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"type\""));

/// Bytes kept of an event that is too long, enough to see its end.
const OVERLAP: usize = 3;

pub(super) struct Stream {
    undo: bool,
    /// The beginning of an event whose end has not come.
    carry: BytesMut,
    /// How many bytes of `carry` were passed on already.
    passed: usize,
    /// The event in `carry` is too long to be read.
    skipping: bool,
    reader: Reader,
}

impl Stream {
    pub(super) fn new(endpoint: Endpoint, undo: bool, collect: bool) -> Stream {
        let reply = collect.then(Reply::default);
        let reader = Reader { endpoint, reply, ..Reader::default() };
        Stream { undo, carry: BytesMut::new(), passed: 0, skipping: false, reader }
    }

    pub(super) fn feed(&mut self, chunk: Bytes) -> Feed {
        let (first, ended) = (self.reader.first, self.reader.ended);
        let pass = if self.carry.is_empty() { self.aligned(chunk) } else { self.joined(chunk) };
        Feed { pass, first_token: self.reader.first && !first, ended: self.reader.ended && !ended }
    }

    /// A chunk that begins with an event: nothing is copied but an unfinished event at its end.
    fn aligned(&mut self, chunk: Bytes) -> Bytes {
        let mut cuts = Vec::new();
        let done = self.events(&chunk, 0, &mut cuts);
        if done < chunk.len() {
            self.carry.extend_from_slice(&chunk[done..]);
            self.passed = 0;
        }
        if !self.undo {
            self.limit();
            return chunk;
        }
        let pass = without(chunk.slice(..done), 0, &cuts);
        let over = self.limit();
        join(pass, over)
    }

    /// A chunk that begins within an event.
    fn joined(&mut self, chunk: Bytes) -> Bytes {
        let scanned = self.carry.len();
        let mut carry = std::mem::take(&mut self.carry);
        carry.extend_from_slice(&chunk);
        let mut cuts = Vec::new();
        let done = self.events(&carry, scanned, &mut cuts);
        let whole = carry.split_to(done).freeze();
        self.carry = carry;
        let passed = std::mem::take(&mut self.passed);
        if done == 0 {
            self.passed = passed;
        }
        let pass = without(whole, passed, &cuts);
        let over = self.limit();
        if self.undo { join(pass, over) } else { chunk }
    }

    /// Reads the whole events of `bytes`, collects what is to be left out and returns where the
    /// unfinished one begins.
    fn events(&mut self, bytes: &[u8], mut scanned: usize, cuts: &mut Vec<Range<usize>>) -> usize {
        let mut start = 0;
        while let Some(len) = sse::event_end(&bytes[start..], scanned - start) {
            let event = start..start + len;
            if !std::mem::take(&mut self.skipping) && len <= MAX_EVENT {
                let cut = self.reader.event(&bytes[event.clone()], self.undo);
                cuts.extend(cut.map(|c| start + c.start..start + c.end));
            }
            start = event.end;
            scanned = start;
        }
        start
    }

    /// Gives up an event that is too long to hold, and returns what was held of it.
    fn limit(&mut self) -> Bytes {
        if self.carry.len() <= MAX_EVENT && !(self.skipping && self.carry.len() > OVERLAP) {
            return Bytes::new();
        }
        self.skipping = true;
        let over = Bytes::copy_from_slice(&self.carry[self.passed.min(self.carry.len())..]);
        let keep = self.carry.len() - OVERLAP;
        self.carry = BytesMut::from(&self.carry[keep..]);
        self.passed = OVERLAP;
        over
    }

    pub(super) fn finish(mut self) -> Summary {
        let last = std::mem::take(&mut self.carry).freeze();
        let mut cuts = Vec::new();
        if !self.skipping && !last.is_empty() {
            cuts.extend(self.reader.event(&last, self.undo));
        }
        let rest = if self.undo { without(last, self.passed, &cuts) } else { Bytes::new() };
        Summary {
            rest,
            usage: self.reader.usage.usage(),
            response_id: self.reader.response_id,
            complete: self.reader.ended,
            reply: self.reader.reply.map(Reply::finish),
        }
    }
}

/// `bytes` from `start` on, without the ranges of `cuts`.
fn without(bytes: Bytes, start: usize, cuts: &[Range<usize>]) -> Bytes {
    match cuts {
        [] => bytes.slice(start.min(bytes.len())..),
        [one] if one.start <= start => bytes.slice(one.end.max(start)..),
        [one] if one.end == bytes.len() => bytes.slice(start..one.start),
        many => {
            let mut kept = BytesMut::with_capacity(bytes.len());
            let mut at = start;
            for cut in many {
                kept.extend_from_slice(&bytes[at..cut.start.max(at)]);
                at = cut.end.max(at);
            }
            kept.extend_from_slice(&bytes[at..]);
            kept.freeze()
        }
    }
}

fn join(a: Bytes, b: Bytes) -> Bytes {
    if b.is_empty() {
        a
    } else if a.is_empty() {
        b
    } else {
        Bytes::from([a, b].concat())
    }
}

const CHUNK: [&str; 3] = ["usage", "choices", "timings"];
const RESPONSE_EVENT: [&str; 1] = ["response"];
const RESPONSE: [&str; 2] = ["id", "usage"];
const MESSAGE_EVENT: [&str; 2] = ["message", "usage"];

/// What is known of the stream so far.
#[derive(Default)]
struct Reader {
    endpoint: Endpoint,
    usage: Gathered,
    response_id: Option<String>,
    reply: Option<Reply>,
    first: bool,
    ended: bool,
}

impl Reader {
    /// Reads one event and returns the part of it to be left out.
    fn event(&mut self, bytes: &[u8], undo: bool) -> Option<Range<usize>> {
        let event = sse::parse(bytes);
        match self.endpoint {
            Endpoint::Responses => self.response(&event),
            Endpoint::Messages => self.message(&event),
            _ => return self.chunk(&event, bytes.len(), undo),
        }
        None
    }

    fn chunk(&mut self, event: &Event<'_>, len: usize, undo: bool) -> Option<Range<usize>> {
        let data = event.data.as_deref()?;
        if data.trim_ascii() == b"[DONE]" {
            self.ended = true;
            return None;
        }
        self.first = true;
        if let Some(reply) = &mut self.reply {
            reply.chunk(self.endpoint, data);
        }
        if USAGE.find(data).is_none() {
            if TIMINGS.find(data).is_some() {
                self.timings(data);
            }
            return None;
        }
        self.usage(event, data, len, undo)
    }

    /// A chunk that speaks of usage: reads it, and says what of it the splice has added.
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
            // Usage beside a choice comes unasked: llama.cpp's last chunk of a completion.
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

    /// llama.cpp's timings tell the same as usage, unasked.
    fn timings(&mut self, data: &[u8]) {
        let Ok(json) = std::str::from_utf8(data) else { return };
        if let Ok([_, _, Some(timings)]) = Object::parse(&CHUNK, json) {
            self.usage.add_timings(timings.get().as_bytes());
        }
    }

    fn response(&mut self, event: &Event<'_>) {
        let Some(data) = event.data.as_deref() else { return };
        let kind = kind(event.name, data);
        self.first |= kind.ends_with(b".delta");
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

    fn message(&mut self, event: &Event<'_>) {
        let Some(data) = event.data.as_deref() else { return };
        let kind = kind(event.name, data);
        self.first |= kind == b"content_block_delta";
        self.ended |= kind == b"message_stop";
        if let Some(reply) = &mut self.reply {
            reply.message(kind, data);
        }
        if USAGE.find(data).is_none() {
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

/// The kind of an event: its name, or the first `type` of its data.
fn kind<'a>(name: &'a [u8], data: &'a [u8]) -> &'a [u8] {
    if name.is_empty() { string_after(&TYPE, data).unwrap_or_default() } else { name }
}

/// The range of the member `key` whose value is the slice `value` of `json`, with the comma that
/// goes with it. `None` when the key is spelled in another way.
fn member(json: &str, value: &str, key: &str) -> Option<Range<usize>> {
    let start = value.as_ptr() as usize - json.as_ptr() as usize;
    let end = start + value.len();
    let before = json[..start].trim_ascii_end().strip_suffix(':')?.trim_ascii_end();
    let before = before.strip_suffix(key)?;
    if let Some(rest) = before.trim_ascii_end().strip_suffix(',') {
        return Some(rest.len()..end);
    }
    let after = json[end..].trim_ascii_start();
    let after = after.strip_prefix(',').map_or(after, str::trim_ascii_start);
    Some(before.len()..json.len() - after.len())
}
