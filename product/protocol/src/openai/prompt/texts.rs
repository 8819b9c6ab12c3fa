//! Prompts without roles: text, lists of texts, token ids.

use serde_json::value::RawValue;

use super::{ROLE, TOKENS, Writer};
use crate::openai::bad::BadRequest;
use crate::openai::body::Body;
use crate::openai::raw::{elements, kind, string};
use crate::openai::text::Sink;

impl<S: Sink> Writer<S> {
    /// A prompt without roles: a string, an array of strings, of token ids, or of arrays of them.
    pub(super) fn texts(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
        let wanted = "a string, an array of strings or an array of token ids";
        // vLLM takes a prompt that is embedded already, and llama.cpp embeds `content`.
        let prompt = [self.param, "prompt_embeds", "content"].iter().find_map(|f| body.get(f));
        let Some(prompt) = prompt else {
            return Err(BadRequest::missing(self.param, wanted));
        };
        self.in_user = true;
        match kind(prompt) {
            "a string" if body.get(self.param).is_some() => self.one(prompt),
            "an array" => self.list(prompt),
            "a string" | "an object" => self.unknown(prompt),
            found => Err(BadRequest::kind(self.param, found, wanted)),
        }
    }

    fn one(&mut self, text: &RawValue) -> Result<(), BadRequest> {
        self.text(string(text).unwrap_or_default());
        Ok(())
    }

    /// Prompts, or the token ids of one. llama.cpp also takes ids and texts in turn as one prompt, and
    /// objects with media.
    pub(super) fn list(&mut self, prompt: &RawValue) -> Result<(), BadRequest> {
        let inside = prompt.get()[1..].trim_ascii_start();
        let ids = inside.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if ids && memchr::memchr2(b'"', b'[', inside.as_bytes()).is_none() {
            return self.tokens(prompt);
        }
        let (param, mut first) = (self.param, true);
        elements(prompt, param, |one| {
            if !first {
                self.fingerprint.push(ROLE);
            }
            first = false;
            match kind(one) {
                "a string" => self.one(one),
                "an array" if one.get().contains('"') => self.unknown(one),
                "an array" => self.tokens(one),
                "an object" => self.unknown(one),
                "a number" => self.tokens(one),
                found => {
                    let what = format!("an element is {found}: send strings or token ids");
                    Err(BadRequest::inside(param, what))
                }
            }
        })
    }

    pub(super) fn tokens(&mut self, ids: &RawValue) -> Result<(), BadRequest> {
        let list = ids.get().trim_start_matches('[').trim_end_matches(']').trim_ascii();
        self.fingerprint.push(TOKENS);
        if list.is_empty() {
            return Ok(());
        }
        for id in list.split(',') {
            let Ok(id) = id.trim_ascii().parse::<u32>() else {
                let what = "an element is not a token id: send integers from 0 to 4294967295";
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
