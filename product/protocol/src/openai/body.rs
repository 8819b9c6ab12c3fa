//! Parses a request body in one pass: the relevant members, as slices of it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::bad::BadRequest;
use super::endpoint::Endpoint;
use super::engine_fields::{Name, Place};
use super::raw::{Each, Object, Slots, Trouble, shallow};
use super::refuse::refuse_scalars;
use super::splice::Splices;
use super::strip::{Strip, Walk};

/// The members of a body that are read, in the order of [`Body::slots`].
pub(crate) const FIELDS: [&str; 26] = [
    "model",
    "stream",
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "max_output_tokens",
    "n",
    "best_of",
    "session_id",
    "session_params",
    "conversation",
    "prompt_cache_key",
    "user",
    "metadata",
    "service_tier",
    "previous_response_id",
    "cache_salt",
    "tools",
    "functions",
    "system",
    "instructions",
    "prompt",
    "input",
    "messages",
    "prompt_embeds",
    "content",
];

/// Those whose nesting is checked when the prompt is written.
const WALKED: [&str; 6] = ["tools", "functions", "system", "instructions", "prompt", "input"];

/// The members of a message that an engine puts into its prompt.
pub(crate) const MESSAGE: [&str; 4] = ["role", "content", "tool_calls", "function_call"];

/// One message, opened by one level.
pub(crate) type Message<'a> = Slots<'a, 4>;

/// A parsed body.
pub(crate) struct Body<'a> {
    slots: Slots<'a, { FIELDS.len() }>,
    /// The messages, opened in the same pass. `None` if the body has none.
    pub(crate) messages: Option<Vec<Message<'a>>>,
    /// Cuts that remove the engines' private fields.
    pub(crate) cuts: Splices,
}

impl<'a> Body<'a> {
    /// Parses a body. `messages` is opened if `endpoint` has them. On an engine's own path the body
    /// may be any JSON, and the last of duplicate members counts.
    pub(crate) fn parse(endpoint: Endpoint, json: &'a str) -> Result<Body<'a>, BadRequest> {
        let trouble = Trouble::default();
        let strip = Strip::new(json);
        let walk = Walk { strip: &strip, trouble: &trouble };
        let open = endpoint.may_have_messages();
        let mut parser = serde_json::Deserializer::from_str(json);
        let any = endpoint.is_foreign();
        let parsed = match any && first(json) != Some(b'{') {
            true => walk.deserialize(&mut parser).map(|()| Body::default()),
            false => Top { open, any, walk }.deserialize(&mut parser),
        };
        let parsed = parsed.and_then(|body| parser.end().map(|()| body));
        let body = parsed.map_err(|e| trouble.explain(&e))?;
        Ok(Body { cuts: strip.into_cuts(), ..body })
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

impl Default for Body<'_> {
    fn default() -> Self {
        Body { slots: [None; FIELDS.len()], messages: None, cuts: Splices::default() }
    }
}

fn first(json: &str) -> Option<u8> {
    json.as_bytes().trim_ascii_start().first().copied()
}

struct Top<'c> {
    open: bool,
    /// Refuse nothing but invalid JSON.
    any: bool,
    walk: Walk<'c>,
}

impl Top<'_> {
    fn refuse<E: Error>(&self, found: &str) -> E {
        let what = format!("the body is {found}: send a JSON object");
        self.walk.trouble.stop(BadRequest::new(None, what))
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
        let (trouble, strip) = (self.walk.trouble, self.walk.strip);
        let mut body = Body::default();
        while let Some(place) = map.next_key_seed(Name(&FIELDS))? {
            let i = match place {
                Place::Read(i) => i,
                Place::Container => {
                    map.next_value_seed(self.walk)?;
                    continue;
                }
                Place::Engine(field) => {
                    strip.cut(field, map.next_value()?).map_err(|bad| trouble.stop(bad))?;
                    continue;
                }
                Place::Client => {
                    shallow(map.next_value()?, None).map_err(|bad| trouble.stop(bad))?;
                    continue;
                }
            };
            let name = FIELDS[i];
            let messages = self.open && name == "messages";
            if !self.any && (body.slots[i].is_some() || messages && body.messages.is_some()) {
                let what = format!("`{name}` is given twice: send it once");
                return Err(trouble.stop(BadRequest::new(Some(name), what)));
            }
            if messages {
                body.messages = Some(map.next_value_seed(Messages { trouble })?);
            } else {
                let value = map.next_value()?;
                if !WALKED.contains(&name) {
                    shallow(value, Some(name)).map_err(|bad| trouble.stop(bad))?;
                }
                body.slots[i] = Some(value);
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
