//! The reply of an answer in one JSON object, as the next turn's prompt will contain it.

use super::Writer;
use crate::openai::body::MESSAGE;
use crate::openai::endpoint::Endpoint;
use crate::openai::raw::{Object, elements, string};

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
        Endpoint::Messages => writer.content(content?).ok()?,
        _ => return None,
    }
    Some(writer.fingerprint)
}
