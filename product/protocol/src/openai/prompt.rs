//! The prompt as the engine will see it, as one stream of bytes for the fingerprint.
//!
//! Order: tools, system or instructions, then the messages, whatever their order in the JSON. Each
//! message is a mark, its role, a mark, its content. Marks are bytes that never occur in UTF-8
//! text, and nothing closes a message. The bytes of a conversation are therefore a prefix of those
//! of its next turn, and [`push_reply`] adds the reply as it will look there.
//!
//! Inputs that engines treat as equal have equal fingerprints: a string and a list of one text
//! part, escapes and the characters they stand for, JSON with and without white space in tools. Ids
//! of tool calls and past reasoning are left out, since few chat templates print them. Images and
//! files count as a hash of their bytes or URL, also in the outputs of tools. The engine's own
//! template is not applied: the marks stand for it.

mod content;
mod items;
mod media;
mod reply;
mod texts;

use meridian_base::Fingerprinter;
use serde_json::value::RawValue;

use super::bad::BadRequest;
use super::body::{Body, Message};
use super::endpoint::Endpoint;
use super::raw::{elements, given, kind, owned, string};
use super::text::{Sink, decode};
pub(crate) use reply::answer_reply;

/// Starts a message; its role follows.
const ROLE: &[u8] = &[0xFF];
/// Ends the role; the content follows.
const CONTENT: &[u8] = &[0xFE];
/// Starts the tools.
const TOOLS: &[u8] = &[0xFD];
/// Starts a tool call; the function's name follows.
pub(super) const CALL: &[u8] = &[0xFC];
/// Ends the name of a tool call; its arguments follow.
pub(super) const ARGUMENTS: &[u8] = &[0xFB];
/// Starts the 8-byte hash of an image, a file or a sound.
const MEDIA: &[u8] = &[0xFA];
/// Starts a prompt of token ids, four bytes each.
const TOKENS: &[u8] = &[0xF9];
const _: () = {
    let marks = [ROLE[0], CONTENT[0], TOOLS[0], CALL[0], ARGUMENTS[0], MEDIA[0], TOKENS[0]];
    let mut i = 0;
    while i < marks.len() {
        // 0xF8 is the mark of a quote in compacted JSON.
        assert!(marks[i] > 0xF8, "a mark is no byte of a text");
        i += 1;
    }
};

/// Appends a reply, as [`Summary::reply`](super::Summary::reply) holds it, to the fingerprint of
/// its prompt: the prefix of the conversation's next turn. A reply cut short is still a prefix.
pub fn push_reply(endpoint: Endpoint, prompt: &mut Fingerprinter, reply: &[u8]) {
    if endpoint != Endpoint::Completions {
        begin(prompt, b"assistant");
    }
    prompt.push(reply);
}

fn begin(sink: &mut impl Sink, role: &[u8]) {
    sink.push(ROLE);
    decode(role, sink);
    sink.push(CONTENT);
}

/// Writes prompts into a fingerprint.
pub(crate) struct Writer<S> {
    pub(crate) fingerprint: S,
    /// The first bytes of the first user message.
    pub(crate) head: Vec<u8>,
    head_bytes: usize,
    in_user: bool,
    seed: u64,
    param: &'static str,
    /// Whether the first block of the system prompt is left out.
    pub(crate) is_billed: bool,
}

impl<S: Sink> Writer<S> {
    pub(crate) fn new(fingerprint: S, head_bytes: usize, seed: u64) -> Writer<S> {
        let head = Vec::new();
        Writer {
            fingerprint,
            head,
            head_bytes,
            in_user: false,
            seed,
            param: "messages",
            is_billed: false,
        }
    }

    /// Writes the prompt of a body.
    pub(crate) fn prompt(&mut self, endpoint: Endpoint, body: &Body<'_>) -> Result<(), BadRequest> {
        self.param = endpoint.prompt_field();
        match endpoint {
            Endpoint::ChatCompletions => {
                self.tools(body)?;
                self.messages(body)
            }
            Endpoint::Messages => {
                self.tools(body)?;
                self.system(body, "system")?;
                self.messages(body)
            }
            Endpoint::Responses => {
                self.tools(body)?;
                self.system(body, "instructions")?;
                self.items(body)
            }
            Endpoint::Embeddings if body.messages.is_some() && body.get("input").is_none() => {
                self.messages(body)
            }
            _ => self.texts(body),
        }
    }

    pub(super) fn tools(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
        for name in ["tools", "functions"] {
            let Some(tools) = body.get(name) else { continue };
            if kind(tools) != "an array" {
                return Err(BadRequest::kind(name, kind(tools), "an array of tools"));
            }
            self.fingerprint.push(TOOLS);
            self.compacted(tools, name)?;
        }
        Ok(())
    }

    pub(super) fn system(&mut self, body: &Body<'_>, name: &'static str) -> Result<(), BadRequest> {
        let Some(system) = body.get(name) else { return Ok(()) };
        begin(&mut self.fingerprint, b"system");
        let mut began = false;
        self.param = name;
        match std::mem::take(&mut self.is_billed) {
            true => elements(system, name, |part| {
                let is_first = !std::mem::replace(&mut began, true);
                if is_first { Ok(()) } else { self.part(part, 1) }
            })?,
            false => self.content(system)?,
        }
        self.param = "messages";
        Ok(())
    }

    pub(super) fn messages(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
        self.param = "messages";
        let Some(messages) = &body.messages else {
            let remedy = "an array of messages such as {\"role\": \"user\", \"content\": \"...\"}";
            return Err(BadRequest::missing("messages", remedy));
        };
        for (n, message) in messages.iter().enumerate() {
            self.message(message).map_err(|mut bad| {
                bad.message.push_str(&format!(" (message {n}, counted from 0)"));
                bad
            })?;
        }
        Ok(())
    }

    pub(super) fn message(&mut self, message: &Message<'_>) -> Result<(), BadRequest> {
        self.role(message[0])?;
        self.said(message)
    }

    /// The contents of a message, without its role.
    pub(super) fn said(&mut self, message: &Message<'_>) -> Result<(), BadRequest> {
        let [_, content, calls, call] = *message;
        if let Some(content) = given(content) {
            self.content(content)?;
        }
        if let Some(calls) = given(calls) {
            let param = self.param;
            elements(calls, param, |call| self.call(call))?;
        }
        if let Some(call) = given(call) {
            self.call(call)?;
        }
        Ok(())
    }

    pub(super) fn role(&mut self, role: Option<&RawValue>) -> Result<(), BadRequest> {
        let Some(role) = role else {
            return Err(BadRequest::inside(self.param, "a message has no `role`: name one"));
        };
        let Some(name) = string(role) else {
            let what = format!("a `role` is {}: send a string", kind(role));
            return Err(BadRequest::inside(self.param, what));
        };
        let is_user = name == b"user" || owned(role).is_some_and(|role| role == "user");
        self.in_user = is_user && self.head.is_empty();
        begin(&mut self.fingerprint, name);
        Ok(())
    }
}
