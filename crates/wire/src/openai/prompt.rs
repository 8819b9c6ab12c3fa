//! The prompt as the engine will see it, as one stream of bytes for the fingerprint.
//!
//! Order: tools, system or instructions, then the messages, whatever their order in the JSON. Each
//! message is a mark, its role, a mark, its content. Marks are bytes that no UTF-8 text holds, and
//! nothing closes a message, so the bytes of a conversation are a prefix of those of its next
//! turn, and [`push_reply`] adds what the reply will look like there.
//!
//! Alike for the fingerprint, because alike for engines: a string and a list of one text part,
//! escapes and what they stand for, JSON with and without white space in tools. Left out: ids of
//! tool calls and past reasoning, which few chat templates print. Images and files count as a hash
//! of their bytes or URL. The engine's own template is not applied: the marks stand for it.

use meridian_base::{Fingerprinter, keyed, mix};
use serde_json::value::RawValue;

use super::bad::{BadRequest, MAX_DEPTH};
use super::body::{Body, MESSAGE, Message};
use super::endpoint::Endpoint;
use super::raw::{self, Object, elements, given, kind, string};
use super::text::{Sink, compact, decode};

/// Begins a message; its role follows.
const ROLE: &[u8] = &[0xFF];
/// Ends the role; the content follows.
const CONTENT: &[u8] = &[0xFE];
/// Begins the tools.
const TOOLS: &[u8] = &[0xFD];
/// Begins a tool call; the function's name follows.
pub(super) const CALL: &[u8] = &[0xFC];
/// Ends the name of a tool call; its arguments follow.
pub(super) const ARGUMENTS: &[u8] = &[0xFB];
/// Begins the 8-byte hash of an image, a file or a sound.
const MEDIA: &[u8] = &[0xFA];
/// Begins a prompt of token ids, four bytes each.
const TOKENS: &[u8] = &[0xF9];

/// Appends a reply, as [`Summary::reply`](super::Summary::reply) holds it, to the fingerprint of
/// its prompt: what the next turn of the conversation begins with. A reply cut short is a prefix
/// like any other.
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
}

const PART: [&str; 5] = ["type", "text", "refusal", "content", "name"];
const MEDIA_FIELDS: [&str; 11] = [
    "image_url",
    "source",
    "file",
    "file_id",
    "file_data",
    "file_url",
    "input_audio",
    "audio_url",
    "video_url",
    "input",
    "url",
];
const CALL_FIELDS: [&str; 3] = ["function", "name", "arguments"];
const ITEM: [&str; 6] = ["type", "role", "content", "name", "arguments", "output"];

impl<S: Sink> Writer<S> {
    pub(crate) fn new(fingerprint: S, head_bytes: usize, seed: u64) -> Writer<S> {
        let head = Vec::new();
        Writer { fingerprint, head, head_bytes, in_user: false, seed, param: "messages" }
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
            _ => self.texts(body),
        }
    }

    fn tools(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
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

    fn system(&mut self, body: &Body<'_>, name: &'static str) -> Result<(), BadRequest> {
        let Some(system) = body.get(name) else { return Ok(()) };
        begin(&mut self.fingerprint, b"system");
        self.param = name;
        self.content(system, 0)?;
        self.param = "messages";
        Ok(())
    }

    fn messages(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
        self.param = "messages";
        let Some(messages) = &body.messages else {
            let remedy = "an array of messages such as {\"role\": \"user\", \"content\": \"...\"}";
            return Err(BadRequest::missing("messages", remedy));
        };
        for message in messages {
            self.message(message)?;
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>) -> Result<(), BadRequest> {
        self.role(message[0])?;
        self.said(message)
    }

    /// What a message says, without its role.
    fn said(&mut self, message: &Message<'_>) -> Result<(), BadRequest> {
        let [_, content, calls, call] = *message;
        if let Some(content) = given(content) {
            self.content(content, 0)?;
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

    fn role(&mut self, role: Option<&RawValue>) -> Result<(), BadRequest> {
        let Some(role) = role else {
            return Err(BadRequest::inside(self.param, "a message has no `role`: name one"));
        };
        let Some(name) = string(role) else {
            let what = format!("a `role` is {}: send a string", kind(role));
            return Err(BadRequest::inside(self.param, what));
        };
        let is_user = name == b"user" || raw::owned(role).is_some_and(|role| role == "user");
        self.in_user = is_user && self.head.is_empty();
        begin(&mut self.fingerprint, name);
        Ok(())
    }

    /// A content: a string, or a list of parts.
    fn content(&mut self, content: &RawValue, depth: usize) -> Result<(), BadRequest> {
        if let Some(text) = string(content) {
            self.text(text);
            return Ok(());
        }
        if kind(content) != "an array" || depth > 2 {
            let what =
                format!("a content is {}: send a string or an array of parts", kind(content));
            return Err(BadRequest::inside(self.param, what));
        }
        let param = self.param;
        elements(content, param, |part| self.part(part, depth))
    }

    fn part(&mut self, part: &RawValue, depth: usize) -> Result<(), BadRequest> {
        if let Some(text) = string(part) {
            self.text(text);
            return Ok(());
        }
        let [kind, text, refusal, content, name] = Object::open(&PART, self.param, part)?;
        match kind.and_then(string).unwrap_or_default() {
            b"thinking" | b"redacted_thinking" | b"reasoning" => return Ok(()),
            b"tool_use" => return self.tool_use(part, name),
            b"tool_result" => {
                self.fingerprint.push(CALL);
                return given(content).map_or(Ok(()), |c| self.content(c, depth + 1));
            }
            _ => {}
        }
        match given(text).or(given(refusal)).and_then(string) {
            Some(text) => self.text(text),
            None => return self.media(part),
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        if self.in_user && self.head.len() < self.head_bytes {
            // A decoded byte takes at most six bytes of JSON, a character outside the BMP twelve.
            let enough = text.len().min(6 * self.head_bytes + 12);
            decode(&text[..enough], &mut self.head);
            self.head.truncate(self.head_bytes);
        }
        decode(text, &mut self.fingerprint);
    }

    /// A call of an assistant's message, or the older `function_call`.
    fn call(&mut self, call: &RawValue) -> Result<(), BadRequest> {
        let [function, name, arguments] = Object::open(&CALL_FIELDS, self.param, call)?;
        match function {
            Some(function) => {
                let [_, name, arguments] = Object::open(&CALL_FIELDS, self.param, function)?;
                self.called(name, arguments)
            }
            None => self.called(name, arguments),
        }
    }

    fn tool_use(&mut self, part: &RawValue, name: Option<&RawValue>) -> Result<(), BadRequest> {
        let slots = Object::open(&MEDIA_FIELDS, self.param, part)?;
        self.called(name, slots[9])
    }

    /// One call: the function's name and its arguments, as text or as JSON.
    fn called(
        &mut self,
        name: Option<&RawValue>,
        arguments: Option<&RawValue>,
    ) -> Result<(), BadRequest> {
        self.fingerprint.push(CALL);
        if let Some(name) = name.and_then(string) {
            decode(name, &mut self.fingerprint);
        }
        self.fingerprint.push(ARGUMENTS);
        match arguments {
            None => Ok(()),
            Some(arguments) => match string(arguments) {
                Some(text) => {
                    decode(text, &mut self.fingerprint);
                    Ok(())
                }
                None => self.compacted(arguments, self.param),
            },
        }
    }

    fn media(&mut self, part: &RawValue) -> Result<(), BadRequest> {
        let slots = Object::open(&MEDIA_FIELDS, self.param, part)?;
        let mut hash = Hash::new(self.seed);
        let mut known = false;
        for value in slots.into_iter().flatten() {
            known = true;
            hash.value(value, self.param)?;
        }
        if !known {
            hash.value(part, self.param)?;
        }
        self.fingerprint.push(MEDIA);
        self.fingerprint.push(&hash.finish().to_le_bytes());
        Ok(())
    }

    fn compacted(&mut self, value: &RawValue, param: &'static str) -> Result<(), BadRequest> {
        let json = value.get().as_bytes();
        compact(json, MAX_DEPTH, &mut self.fingerprint).map_err(|_| BadRequest::deep(Some(param)))
    }

    /// The input of `/v1/responses`: a string, or a list of items.
    fn items(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
        self.param = "input";
        let Some(input) = body.get("input") else {
            if body.get("previous_response_id").is_some() {
                return Ok(());
            }
            return Err(BadRequest::missing("input", "a string or an array of items"));
        };
        if let Some(text) = string(input) {
            self.in_user = true;
            begin(&mut self.fingerprint, b"user");
            self.text(text);
            return Ok(());
        }
        let mut in_assistant = false;
        elements(input, "input", |item| self.item(item, &mut in_assistant))
    }

    fn item(&mut self, item: &RawValue, in_assistant: &mut bool) -> Result<(), BadRequest> {
        let [kind, role, content, name, arguments, output] = Object::open(&ITEM, self.param, item)?;
        match (kind.and_then(string).unwrap_or_default(), role) {
            (b"reasoning", _) => return Ok(()),
            (b"function_call", _) => {
                if !*in_assistant {
                    begin(&mut self.fingerprint, b"assistant");
                }
                *in_assistant = true;
                return self.called(name, arguments);
            }
            (_, Some(role)) => {
                let more = *in_assistant && string(role) == Some(b"assistant");
                *in_assistant = string(role) == Some(b"assistant");
                if !more {
                    self.role(Some(role))?;
                }
                return given(content).map_or(Ok(()), |c| self.content(c, 0));
            }
            _ => {}
        }
        *in_assistant = false;
        self.in_user = false;
        begin(&mut self.fingerprint, b"tool");
        match given(output) {
            Some(output) if raw::string(output).is_some() => self.content(output, 0),
            Some(output) => self.compacted(output, self.param),
            None => self.media(item),
        }
    }

    /// A prompt without roles: a string, an array of strings, of token ids, or of arrays of them.
    fn texts(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
        let wanted = "a string, an array of strings or an array of token ids";
        let Some(prompt) = body.get(self.param) else {
            return Err(BadRequest::missing(self.param, wanted));
        };
        self.in_user = true;
        match kind(prompt) {
            "a string" => self.text(string(prompt).unwrap_or_default()),
            "an array" => self.list(prompt)?,
            found => return Err(BadRequest::kind(self.param, found, wanted)),
        }
        Ok(())
    }

    fn list(&mut self, prompt: &RawValue) -> Result<(), BadRequest> {
        let inside = prompt.get()[1..].trim_ascii_start();
        if inside.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return self.tokens(prompt);
        }
        let (param, mut first) = (self.param, true);
        elements(prompt, param, |one| {
            if !first {
                self.fingerprint.push(ROLE);
            }
            first = false;
            match kind(one) {
                "a string" => self.text(string(one).unwrap_or_default()),
                "an array" => self.tokens(one)?,
                found => {
                    let what = format!("an element is {found}: send strings or token ids");
                    return Err(BadRequest::inside(param, what));
                }
            }
            Ok(())
        })
    }

    fn tokens(&mut self, ids: &RawValue) -> Result<(), BadRequest> {
        let list = ids.get().trim_start_matches('[').trim_end_matches(']').trim_ascii();
        self.fingerprint.push(TOKENS);
        if list.is_empty() {
            return Ok(());
        }
        for id in list.split(',') {
            let Ok(id) = id.trim_ascii().parse::<u32>() else {
                let what = "an element is no token id: send integers from 0 to 4294967295";
                return Err(BadRequest::inside(self.param, what));
            };
            if self.head.len() < self.head_bytes {
                self.head.extend_from_slice(&id.to_le_bytes());
            }
            self.fingerprint.push(&id.to_le_bytes());
        }
        Ok(())
    }
}

const ANSWER: [&str; 3] = ["choices", "output", "content"];
const CHOICE: [&str; 2] = ["message", "text"];

/// The reply of an answer in one JSON object, in the bytes that its message will have in the next
/// turn's prompt. The keyed hashes of media need no seed here: engines answer in text.
pub(crate) fn answer_reply(endpoint: Endpoint, json: &str) -> Option<Vec<u8>> {
    let [choices, output, content] = Object::parse(&ANSWER, json).ok()?;
    let mut writer = Writer::new(Vec::new(), 0, 0);
    match endpoint {
        Endpoint::ChatCompletions | Endpoint::Completions => {
            let mut first = None;
            elements(choices?, "choices", |choice| {
                first = first.or(Some(choice));
                Ok(())
            })
            .ok()?;
            let [message, text] = Object::open(&CHOICE, "choices", first?).ok()?;
            if let Some(text) = text.and_then(string) {
                writer.text(text);
            }
            if let Some(message) = message {
                let slots = Object::open(&MESSAGE, "message", message).ok()?;
                writer.said(&slots).ok()?;
            }
        }
        Endpoint::Responses => {
            let mut in_assistant = true;
            elements(output?, "output", |item| writer.item(item, &mut in_assistant)).ok()?;
        }
        Endpoint::Messages => writer.content(content?, 0).ok()?,
        _ => return None,
    }
    Some(writer.fingerprint)
}

/// A hash over values of any length that does not hold them: a fingerprint whose last block is
/// filled up, so that no byte stays outside.
struct Hash(Fingerprinter);

impl Hash {
    const BLOCK: usize = 1024;

    fn new(seed: u64) -> Hash {
        Hash(Fingerprinter::new(seed, keyed(seed, b"media"), Hash::BLOCK))
    }

    fn value(&mut self, value: &RawValue, param: &'static str) -> Result<(), BadRequest> {
        let json = value.get().as_bytes();
        compact(json, MAX_DEPTH, &mut self.0).map_err(|_| BadRequest::deep(Some(param)))
    }

    fn finish(mut self) -> u64 {
        let bytes = self.0.bytes();
        self.0.push(&[0; Hash::BLOCK]);
        mix(self.0.blocks().last().copied().unwrap_or_default(), bytes)
    }
}

/// The members of a message in the order that [`Message`] holds them.
const _: () = assert!(MESSAGE.len() == 4);
