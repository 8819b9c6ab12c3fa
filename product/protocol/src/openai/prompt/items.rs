//! The input of `/v1/responses`: items instead of messages.
//!
//! Calls are separate items here, and members of the message in a chat. Both yield the same bytes:
//! the items after an assistant's message continue it.

use serde_json::value::RawValue;

use super::{Writer, begin};
use crate::openai::bad::BadRequest;
use crate::openai::body::Body;
use crate::openai::raw::{Object, elements, given, kind, string};
use crate::openai::text::Sink;

const ITEM: [&str; 7] = ["type", "role", "content", "name", "arguments", "output", "input"];

impl<S: Sink> Writer<S> {
    /// The input of `/v1/responses`: a string, or a list of items.
    pub(super) fn items(&mut self, body: &Body<'_>) -> Result<(), BadRequest> {
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
        if kind(input) != "an array" {
            return Err(BadRequest::kind("input", kind(input), "a string or an array of items"));
        }
        let mut in_assistant = false;
        elements(input, "input", |item| self.item(item, &mut in_assistant))
    }

    pub(super) fn item(
        &mut self,
        item: &RawValue,
        in_assistant: &mut bool,
    ) -> Result<(), BadRequest> {
        let [form, role, content, name, arguments, output, input] =
            Object::open(&ITEM, self.param, item)?;
        match (form.and_then(string).unwrap_or_default(), role) {
            (b"reasoning", _) => return Ok(()),
            (b"function_call" | b"custom_tool_call" | b"mcp_call", _) => {
                if !*in_assistant {
                    begin(&mut self.fingerprint, b"assistant");
                }
                *in_assistant = true;
                self.called(name, given(arguments).or(given(input)))?;
                // The call of a server's tool and its output are one item.
                if given(output).is_none() {
                    return Ok(());
                }
            }
            (_, Some(role)) => {
                let more = *in_assistant && string(role) == Some(b"assistant");
                *in_assistant = string(role) == Some(b"assistant");
                if !more {
                    self.role(Some(role))?;
                }
                return given(content).map_or(Ok(()), |c| self.content(c));
            }
            _ => {}
        }
        *in_assistant = false;
        self.in_user = false;
        begin(&mut self.fingerprint, b"tool");
        match given(output) {
            Some(output) => self.output(output, 0),
            None => self.part(item, 0),
        }
    }
}
