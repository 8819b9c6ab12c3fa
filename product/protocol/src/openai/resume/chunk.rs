//! Reads one chunk of a chat's or a completion's stream strictly: anything that is not certainly
//! the text of one choice is rejected.

use serde_json::value::RawValue;

use super::Lost;
use crate::openai::endpoint::Endpoint;
use crate::openai::members::{Members, is_nothing};
use crate::openai::raw::{elements, string};

/// A chunk.
pub(super) struct Chunk<'a> {
    pub(super) json: &'a str,
    pub(super) top: Members<'a>,
    /// None in a chunk with usage only.
    choice: Option<Choice<'a>>,
    /// There are other choices, or one that is not the first.
    many: bool,
}

struct Choice<'a> {
    role: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    finished: bool,
    /// There is content besides the text.
    beyond: bool,
}

impl<'a> Chunk<'a> {
    /// None if it is not a chunk: an error, or another protocol.
    pub(super) fn read(endpoint: Endpoint, json: &'a str) -> Option<Chunk<'a>> {
        let top = Members::of(json)?;
        let (mut choice, mut count) = (None, 0);
        elements(top.get("choices")?, "choices", |raw| {
            count += 1;
            choice = choice.take().or(Some(raw));
            Ok(())
        })
        .ok()?;
        let choice = match choice {
            Some(raw) => Some(Members::of(raw.get())?),
            None => None,
        };
        let first = |c: &Members<'_>| c.get("index").is_none_or(|index| index.get() == "0");
        let many = count > 1 || !choice.as_ref().is_none_or(first);
        let choice = match choice {
            Some(choice) => Some(Choice::read(endpoint, &choice)?),
            None => None,
        };
        Some(Chunk { json, top, choice, many })
    }

    /// Why the answer cannot be resumed after this chunk, if so.
    pub(super) fn lost(&self) -> Option<Lost> {
        let choice = self.choice.as_ref()?;
        if self.many || choice.beyond {
            return Some(Lost::NotText);
        }
        choice.finished.then_some(Lost::Finished)
    }

    pub(super) fn role(&self) -> Option<&'a RawValue> {
        self.choice.as_ref()?.role
    }

    /// The inside of the text's JSON string.
    pub(super) fn text(&self) -> &'a [u8] {
        self.choice.as_ref().and_then(|c| string(c.text?)).unwrap_or_default()
    }

    /// Whether it opens an answer and has no text yet.
    pub(super) fn is_opening(&self) -> bool {
        let opens = |c: &Choice<'_>| c.role.is_some() && !c.finished && !c.beyond;
        !self.many && self.text().is_empty() && self.choice.as_ref().is_some_and(opens)
    }

    /// Whether its usage counts the tokens so far on request. llama.cpp's last chunk of a
    /// completion has usage and timings without being asked; usage without a choice ends a stream.
    pub(super) fn is_counted(&self) -> bool {
        self.choice.is_some() && self.top.get("timings").is_none()
    }

    /// Tokens of the answer so far, if the engine counts them in its chunks.
    pub(super) fn tokens(&self) -> Option<u64> {
        let count = |object, name: &str| {
            let members = Members::of(self.top.get(object)?.get())?;
            members.get(name)?.get().parse().ok()
        };
        count("usage", "completion_tokens").or_else(|| count("timings", "predicted_n"))
    }
}

impl<'a> Choice<'a> {
    fn read(endpoint: Endpoint, choice: &Members<'a>) -> Option<Choice<'a>> {
        let finished = choice.get("finish_reason").is_some();
        let beyond = !choice.nothing_but(&["index", "delta", "text", "finish_reason"]);
        if endpoint == Endpoint::Completions {
            let text = choice.get("text");
            return Some(Choice { role: None, text, finished, beyond });
        }
        let delta = choice.get("delta").filter(|delta| !is_nothing(delta));
        let delta = match delta {
            Some(delta) => Members::of(delta.get())?,
            None => Members(Vec::new()),
        };
        Some(Choice {
            role: delta.get("role"),
            text: delta.get("content"),
            finished,
            beyond: beyond || !delta.nothing_but(&["role", "content"]),
        })
    }
}
