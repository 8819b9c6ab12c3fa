//! Collects the assistant's text from the events of a stream.
//!
//! The text of a token chunk is found by its key, not by parsing: a `"content":"` that is not
//! inside a string can only be the member of that name. The result is a hint for the prefix index,
//! in the bytes that the message will have in the next turn.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::MAX_REPLY;
use super::rare::Found;
use crate::openai::endpoint::Endpoint;
use crate::openai::prompt::{ARGUMENTS, CALL};
use crate::openai::raw::{Object, elements, string};
use crate::openai::text::{compact, decode, string_end};

macro_rules! keys {
    ($($name:ident $key:literal)*) => {
        $(static $name: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new($key));)*
    };
}
keys! {
    CONTENT b"\"content\""
    TEXT b"\"text\""
    DELTA b"\"delta\""
    NAME b"\"name\""
    PARTIAL b"\"partial_json\""
    INDEX b"\"index\""
    CALL_TYPE b"\"function_call\""
    TOOL_USE b"\"tool_use\""
}

const CHUNK: [&str; 1] = ["choices"];
const CHOICE: [&str; 1] = ["delta"];
const TOOLS: [&str; 1] = ["tool_calls"];
const TOOL: [&str; 1] = ["function"];
const FUNCTION: [&str; 2] = ["name", "arguments"];

#[derive(Default)]
pub(super) struct Reply {
    bytes: Vec<u8>,
    /// Start of the arguments of an unfinished `tool_use`.
    input: Option<usize>,
}

impl Reply {
    /// A chunk of a chat or a completion, which may have the members in `found`.
    pub(super) fn chunk(&mut self, endpoint: Endpoint, data: &[u8], found: Found) {
        if self.full() || other_choice(data) {
            return;
        }
        let key = if endpoint == Endpoint::Completions { &TEXT } else { &CONTENT };
        if let Some(text) = string_after(key, data) {
            decode(text, &mut self.bytes);
        }
        if found.tool_calls {
            self.tool_calls(data);
        }
    }

    fn tool_calls(&mut self, data: &[u8]) -> Option<()> {
        let json = std::str::from_utf8(data).ok()?;
        let [choices] = Object::parse(&CHUNK, json).ok()?;
        let mut calls = None;
        elements(choices?, "choices", |choice| {
            let [delta] = Object::open(&CHOICE, "choices", choice)?;
            if let Some(delta) = delta {
                [calls] = Object::open(&TOOLS, "delta", delta)?;
            }
            Ok(())
        })
        .ok()?;
        elements(calls?, "tool_calls", |call| {
            let [function] = Object::open(&TOOL, "tool_calls", call)?;
            let Some(function) = function else { return Ok(()) };
            let [name, arguments] = Object::open(&FUNCTION, "function", function)?;
            if let Some(name) = name.and_then(string).filter(|n| !n.is_empty()) {
                self.begin_call(name);
            }
            if let Some(arguments) = arguments.and_then(string) {
                decode(arguments, &mut self.bytes);
            }
            Ok(())
        })
        .ok()
    }

    /// An event of `/v1/responses`.
    pub(super) fn response(&mut self, kind: &[u8], data: &[u8]) {
        if self.full() {
            return;
        }
        match kind {
            b"response.output_text.delta" | b"response.function_call_arguments.delta" => {
                if let Some(text) = string_after(&DELTA, data) {
                    decode(text, &mut self.bytes);
                }
            }
            b"response.output_item.added" if CALL_TYPE.find(data).is_some() => {
                self.begin_call(string_after(&NAME, data).unwrap_or_default());
            }
            _ => {}
        }
    }

    /// An event of `/v1/messages`.
    pub(super) fn message(&mut self, kind: &[u8], data: &[u8]) {
        if self.full() {
            return;
        }
        match kind {
            b"content_block_delta" => {
                let text = string_after(&TEXT, data).or_else(|| string_after(&PARTIAL, data));
                decode(text.unwrap_or_default(), &mut self.bytes);
            }
            b"content_block_start" if TOOL_USE.find(data).is_some() => {
                self.begin_call(string_after(&NAME, data).unwrap_or_default());
                self.input = Some(self.bytes.len());
            }
            b"content_block_stop" => self.end_input(),
            _ => {}
        }
    }

    fn begin_call(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(CALL);
        decode(name, &mut self.bytes);
        self.bytes.extend_from_slice(ARGUMENTS);
    }

    /// The input of a `tool_use` arrives as text and goes into the next request as JSON.
    fn end_input(&mut self) {
        let Some(at) = self.input.take() else { return };
        let mut json = self.bytes.split_off(at);
        if json.is_empty() {
            json = b"{}".to_vec();
        }
        // Input that is nested too deeply is cut short; the engine will refuse it anyway.
        let _ = compact(&json, crate::openai::bad::MAX_DEPTH, &mut self.bytes);
    }

    fn full(&self) -> bool {
        self.bytes.len() >= MAX_REPLY
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.truncate(MAX_REPLY);
        self.bytes
    }
}

/// Whether a chunk belongs to the second or a later choice.
fn other_choice(data: &[u8]) -> bool {
    let Some(at) = INDEX.find(data) else { return false };
    let after = data[at + INDEX.needle().len()..].trim_ascii_start();
    let after = after.strip_prefix(b":").unwrap_or(after).trim_ascii_start();
    after.first().is_some_and(|b| (b'1'..=b'9').contains(b))
}

/// The inside of the first string that is the value of the key in `finder`.
pub(in crate::openai) fn string_after<'a>(finder: &Finder<'_>, data: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = data;
    while let Some(at) = finder.find(rest) {
        rest = &rest[at + finder.needle().len()..];
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { continue };
        let value = value.trim_ascii_start();
        if value.first() == Some(&b'"') {
            return string_end(value, 0).map(|end| &value[1..end]);
        }
    }
    None
}
