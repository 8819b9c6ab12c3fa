//! Message contents: text, parts, tool calls, and the hashes that stand for images and files.

use meridian_base::{Fingerprinter, keyed, mix};
use serde_json::value::RawValue;

use super::{ARGUMENTS, CALL, MEDIA, Writer};
use crate::openai::bad::{BadRequest, MAX_DEPTH};
use crate::openai::raw::{Object, elements, given, kind, string};
use crate::openai::text::{Sink, compact, decode};

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

impl<S: Sink> Writer<S> {
    /// A content: a string, or a list of parts.
    pub(super) fn content(&mut self, content: &RawValue, depth: usize) -> Result<(), BadRequest> {
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

    pub(super) fn part(&mut self, part: &RawValue, depth: usize) -> Result<(), BadRequest> {
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

    pub(super) fn tool_use(
        &mut self,
        part: &RawValue,
        name: Option<&RawValue>,
    ) -> Result<(), BadRequest> {
        let slots = Object::open(&MEDIA_FIELDS, self.param, part)?;
        self.called(name, slots[9])
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

    pub(super) fn media(&mut self, part: &RawValue) -> Result<(), BadRequest> {
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

    pub(super) fn compacted(
        &mut self,
        value: &RawValue,
        param: &'static str,
    ) -> Result<(), BadRequest> {
        let json = value.get().as_bytes();
        compact(json, MAX_DEPTH, &mut self.fingerprint).map_err(|_| BadRequest::deep(Some(param)))
    }
}

/// A hash of values of any length: a fingerprint with a padded last block, so that every byte
/// counts.
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
