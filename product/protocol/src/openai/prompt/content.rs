//! Message contents: text, parts, the outputs of tools, and tool calls.

use serde_json::value::RawValue;

use super::{ARGUMENTS, CALL, Writer};
use crate::openai::bad::{BadRequest, MAX_DEPTH};
use crate::openai::raw::{Object, elements, given, kind, string};
use crate::openai::text::{Sink, compact, decode};

const PART: [&str; 6] = ["type", "text", "refusal", "content", "name", "input"];
const DOCUMENT: [&str; 1] = ["source"];
const SOURCE: [&str; 3] = ["type", "data", "content"];
const CALL_FIELDS: [&str; 3] = ["function", "name", "arguments"];

/// Levels of parts inside parts: deeper ones are read as JSON of an unknown form.
const MAX_DEEP: usize = 4;

impl<S: Sink> Writer<S> {
    /// A content: a string, a list of parts, or one part.
    pub(super) fn content(&mut self, content: &RawValue) -> Result<(), BadRequest> {
        let param = self.param;
        match kind(content) {
            "a string" | "an object" => self.part(content, 0),
            "an array" => elements(content, param, |part| self.part(part, 1)),
            found => {
                let what = format!("a content is {found}: send a string or an array of parts");
                Err(BadRequest::inside(param, what))
            }
        }
    }

    /// The output of a tool: what a content may be, or any other JSON.
    pub(super) fn output(&mut self, output: &RawValue, depth: usize) -> Result<(), BadRequest> {
        let param = self.param;
        match kind(output) {
            "a string" => self.part(output, depth),
            "an object" if depth < MAX_DEEP => self.part(output, depth),
            "an array" if depth < MAX_DEEP => elements(output, param, |part| match kind(part) {
                "a string" | "an object" => self.part(part, depth + 1),
                _ => self.unknown(part),
            }),
            _ => self.unknown(output),
        }
    }

    pub(super) fn part(&mut self, part: &RawValue, depth: usize) -> Result<(), BadRequest> {
        if let Some(text) = string(part) {
            self.text(text);
            return Ok(());
        }
        let [form, text, refusal, content, name, input] = Object::open(&PART, self.param, part)?;
        let form = form.and_then(string).unwrap_or_default();
        match form {
            b"thinking" | b"redacted_thinking" | b"reasoning" => return Ok(()),
            b"tool_use" | b"server_tool_use" | b"mcp_tool_use" => return self.called(name, input),
            b"document" => return self.document(part, depth),
            b"search_result" | b"web_fetch_result" | b"message" if content.is_some() => {
                return given(content).map_or(Ok(()), |c| self.output(c, depth + 1));
            }
            form if form.ends_with(b"tool_result") => {
                self.fingerprint.push(CALL);
                return given(content).map_or(Ok(()), |c| self.output(c, depth + 1));
            }
            _ => {}
        }
        let said = given(text).or(given(refusal)).and_then(string);
        if let Some(text) = said {
            self.text(text);
        }
        match self.media(part)? {
            false if said.is_none() => self.unknown(part),
            _ => Ok(()),
        }
    }

    /// A document is a file, unless its source is text or a list of parts.
    fn document(&mut self, part: &RawValue, depth: usize) -> Result<(), BadRequest> {
        let [source] = Object::open(&DOCUMENT, self.param, part)?;
        let Some(source) = source.filter(|source| kind(source) == "an object") else {
            return self.unknown(part);
        };
        let [form, data, content] = Object::open(&SOURCE, self.param, source)?;
        match (form.and_then(string), data.and_then(string), given(content)) {
            (Some(b"text"), Some(text), _) => {
                self.text(text);
                Ok(())
            }
            (Some(b"content"), _, Some(content)) => self.output(content, depth + 1),
            _ => self.media(part).map(|_| ()),
        }
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        if self.in_user && self.head.len() < self.head_bytes {
            // A decoded byte takes at most six bytes of JSON, a character outside the BMP twelve.
            let enough = text.len().min(6 * self.head_bytes + 12);
            decode(&text[..enough], &mut self.head);
            self.head.truncate(self.head_bytes);
        }
        decode(text, &mut self.fingerprint);
    }

    /// A call of an assistant's message, or the older `function_call`.
    pub(super) fn call(&mut self, call: &RawValue) -> Result<(), BadRequest> {
        let [function, name, arguments] = Object::open(&CALL_FIELDS, self.param, call)?;
        match function {
            Some(function) => {
                let [_, name, arguments] = Object::open(&CALL_FIELDS, self.param, function)?;
                self.called(name, arguments)
            }
            None => self.called(name, arguments),
        }
    }

    /// One call: the function's name and its arguments, as text or as JSON.
    pub(super) fn called(
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

    pub(super) fn compacted(
        &mut self,
        value: &RawValue,
        param: &'static str,
    ) -> Result<(), BadRequest> {
        let json = value.get().as_bytes();
        compact(json, MAX_DEPTH, &mut self.fingerprint).map_err(|_| BadRequest::deep(Some(param)))
    }
}
