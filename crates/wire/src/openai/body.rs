//! A request body, seen once: the members that matter, as slices of it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::bad::BadRequest;
use super::endpoint::Endpoint;
use super::raw::{Each, Key, Object, Slots, Trouble, shallow};
use super::refuse::refuse_scalars;

/// The members of a body that are read, in the order of [`Body::slots`].
pub(crate) const FIELDS: [&str; 20] = [
    "model",
    "stream",
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "max_output_tokens",
    "session_id",
    "session_params",
    "prompt_cache_key",
    "user",
    "metadata",
    "previous_response_id",
    "cache_salt",
    "tools",
    "functions",
    "system",
    "instructions",
    "prompt",
    "input",
    "messages",
];

/// The members of a message that an engine puts in its prompt.
pub(crate) const MESSAGE: [&str; 4] = ["role", "content", "tool_calls", "function_call"];

/// One message, opened by one level.
pub(crate) type Message<'a> = Slots<'a, 4>;

/// A body taken apart.
pub(crate) struct Body<'a> {
    slots: Slots<'a, 20>,
    /// The messages, opened in the same pass. `None` when the body has none.
    pub(crate) messages: Option<Vec<Message<'a>>>,
}

impl<'a> Body<'a> {
    /// Parses a body. `messages` is opened where `endpoint` has them.
    pub(crate) fn parse(endpoint: Endpoint, json: &'a str) -> Result<Body<'a>, BadRequest> {
        let trouble = Trouble::default();
        let open = matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Messages);
        let mut parser = serde_json::Deserializer::from_str(json);
        let parsed = Top { open, trouble: &trouble }
            .deserialize(&mut parser)
            .and_then(|body| parser.end().map(|()| body));
        parsed.map_err(|e| trouble.explain(&e))
    }

    /// A member by name, null or not.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        FIELDS.iter().position(|f| *f == name).and_then(|i| self.slots[i])
    }

    /// A member by name, unless it is null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        super::raw::given(self.raw(name))
    }
}

struct Top<'c> {
    open: bool,
    trouble: &'c Trouble,
}

impl Top<'_> {
    fn refuse<E: Error>(&self, found: &str) -> E {
        let what = format!("the body is {found}: send a JSON object");
        self.trouble.stop(BadRequest::new(None, what))
    }
}

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = Body<'de>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Body<'de>, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = Body<'de>;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body<'de>, A::Error> {
        let mut body = Body { slots: [None; 20], messages: None };
        while let Some(key) = map.next_key_seed(Key(&FIELDS))? {
            let Some(i) = key else {
                let skipped: &RawValue = map.next_value()?;
                shallow(skipped, None).map_err(|bad| self.trouble.stop(bad))?;
                continue;
            };
            let name = FIELDS[i];
            let messages = self.open && name == "messages";
            if body.slots[i].is_some() || messages && body.messages.is_some() {
                let what = format!("`{name}` is given twice: send it once");
                return Err(self.trouble.stop(BadRequest::new(Some(name), what)));
            }
            if messages {
                body.messages = Some(map.next_value_seed(Messages { trouble: self.trouble })?);
            } else {
                body.slots[i] = Some(map.next_value()?);
            }
        }
        Ok(body)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Body<'de>, A::Error> {
        Err(self.refuse("an array"))
    }

    refuse_scalars!();
}

struct Messages<'c> {
    trouble: &'c Trouble,
}

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = Vec<Message<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        let (param, trouble) = ("messages", self.trouble);
        let mut messages = Vec::new();
        let each = |message: Message<'de>| {
            if message[0].is_none() {
                let n = messages.len();
                return Err(BadRequest::inside(param, format_args!("message {n} has no `role`")));
            }
            messages.push(message);
            Ok(())
        };
        let seed = Object { names: &MESSAGE, param, trouble };
        Each { seed, param, trouble, each }.deserialize(d)?;
        Ok(messages)
    }
}
