//! Raw JSON values: opens one level of an object or an array and keeps the rest unparsed.
//!
//! `serde_json` parses; the seeds here steer it. Each value is visited once, nothing is copied, and
//! an error knows its field. `serde`'s own messages may quote the input, so they are never shown: a
//! seed that finds a problem reports it in its [`Trouble`].

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::bad::{BadRequest, MAX_DEPTH, MAX_ITEMS};
use super::refuse::refuse_scalars;
use super::text;

/// The members of an object by their index in a list of names; absent ones are `None`.
pub(crate) type Slots<'a, const N: usize> = [Option<&'a RawValue>; N];

/// The problem that a seed found. It is stored here because `serde`'s errors carry only text.
#[derive(Default)]
pub(crate) struct Trouble(Cell<Option<BadRequest>>);

impl Trouble {
    pub(crate) fn stop<E: Error>(&self, bad: BadRequest) -> E {
        self.0.set(Some(bad));
        E::custom("")
    }

    /// Turns a parser's error about the whole body into one for the sender.
    pub(crate) fn explain(self, error: &serde_json::Error) -> BadRequest {
        let (line, column) = (error.line(), error.column());
        let syntax = error.classify() != Category::Data;
        if syntax {
            let what = format!("the body is not one valid JSON object: {error}; check its quoting");
            return BadRequest::new(None, what);
        }
        let mut bad = self.inside();
        bad.message.push_str(&format!(" (line {line}, column {column})"));
        bad
    }

    /// The same for a value within the body, whose position the parser does not know.
    fn inside(self) -> BadRequest {
        let unknown = || BadRequest::new(None, "a value is of the wrong type");
        self.0.into_inner().unwrap_or_else(unknown)
    }
}

/// The kind of a value, in words.
pub(crate) fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The inside of a string, escapes and all.
pub(crate) fn string(raw: &RawValue) -> Option<&[u8]> {
    raw.get().as_bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// A string's text.
pub(crate) fn owned(raw: &RawValue) -> Option<String> {
    string(raw).map(text::decoded)
}

pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// A truth value, also in the other forms that pydantic takes for one, and so vLLM and SGLang.
pub(crate) fn truth(raw: &RawValue) -> Option<bool> {
    match raw.get() {
        "true" => return Some(true),
        "false" => return Some(false),
        _ => {}
    }
    match raw.get().trim_matches('"').to_ascii_lowercase().as_str() {
        "true" | "1" | "1.0" | "t" | "yes" | "y" | "on" => Some(true),
        "false" | "0" | "0.0" | "f" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

/// A member that is present and not null.
pub(crate) fn given(slot: Option<&RawValue>) -> Option<&RawValue> {
    slot.filter(|raw| !is_null(raw))
}

/// Opens an object: the members in `names` are kept raw, others are skipped.
pub(crate) struct Object<'c, const N: usize> {
    pub(crate) names: &'static [&'static str; N],
    pub(crate) param: &'static str,
    pub(crate) trouble: &'c Trouble,
}

impl<const N: usize> Clone for Object<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const N: usize> Copy for Object<'_, N> {}

impl<const N: usize> Object<'_, N> {
    /// Opens an object from a raw value.
    pub(crate) fn open<'a>(
        names: &'static [&'static str; N],
        param: &'static str,
        raw: &'a RawValue,
    ) -> Result<Slots<'a, N>, BadRequest> {
        let trouble = Trouble::default();
        let seed = Object { names, param, trouble: &trouble };
        let mut json = serde_json::Deserializer::from_str(raw.get());
        seed.deserialize(&mut json).map_err(|_| trouble.inside())
    }

    /// Opens an object of an answer.
    pub(crate) fn parse<'a>(
        names: &'static [&'static str; N],
        json: &'a str,
    ) -> Result<Slots<'a, N>, BadRequest> {
        let trouble = Trouble::default();
        let seed = Object { names, param: "answer", trouble: &trouble };
        let mut json = serde_json::Deserializer::from_str(json);
        seed.deserialize(&mut json).map_err(|_| trouble.inside())
    }
}

impl<const N: usize> Object<'_, N> {
    fn refuse<E: Error>(&self, found: &str) -> E {
        let param = self.param;
        self.trouble
            .stop(BadRequest::inside(param, format_args!("{found} is in place of an object")))
    }
}

impl<'de, const N: usize> DeserializeSeed<'de> for Object<'_, N> {
    type Value = Slots<'de, N>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Object<'_, N> {
    type Value = Slots<'de, N>;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut slots = [None; N];
        while let Some(key) = map.next_key_seed(Key(self.names))? {
            let Some(i) = key else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if slots[i].is_some() {
                let what = format!("a member `{}` is given twice: send it once", self.names[i]);
                return Err(self.trouble.stop(BadRequest::inside(self.param, what)));
            }
            slots[i] = Some(map.next_value()?);
        }
        Ok(slots)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(self.refuse("an array"))
    }

    refuse_scalars!();
}

/// A member's name, as its place in a list.
pub(crate) struct Key(pub(crate) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<usize>;

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|n| *n == name))
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
}

/// Opens an array and hands each element, read by `seed`, to `each`.
pub(crate) struct Each<'c, S, F> {
    pub(crate) seed: S,
    pub(crate) param: &'static str,
    pub(crate) trouble: &'c Trouble,
    pub(crate) each: F,
}

impl<S, F> Each<'_, S, F> {
    fn refuse<E: Error>(&self, found: &str) -> E {
        self.trouble.stop(BadRequest::kind(self.param, found, "an array"))
    }
}

impl<'de, S, F> DeserializeSeed<'de> for Each<'_, S, F>
where
    S: DeserializeSeed<'de> + Copy,
    F: FnMut(S::Value) -> Result<(), BadRequest>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, S, F> Visitor<'de> for Each<'_, S, F>
where
    S: DeserializeSeed<'de> + Copy,
    F: FnMut(S::Value) -> Result<(), BadRequest>,
{
    type Value = ();

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let mut n = 0;
        while let Some(value) = seq.next_element_seed(self.seed)? {
            n += 1;
            if n > MAX_ITEMS {
                let what = format!("there are more than {MAX_ITEMS} elements: send fewer");
                return Err(self.trouble.stop(BadRequest::inside(self.param, what)));
            }
            (self.each)(value).map_err(|bad| self.trouble.stop(bad))?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(self.refuse("an object"))
    }

    refuse_scalars!();
}

/// Keeps an element raw.
#[derive(Clone, Copy)]
pub(crate) struct Raw;

impl<'de> DeserializeSeed<'de> for Raw {
    type Value = &'de RawValue;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        serde::Deserialize::deserialize(d)
    }
}

/// Hands each raw element of an array to `each`.
pub(crate) fn elements<'a>(
    raw: &'a RawValue,
    param: &'static str,
    each: impl FnMut(&'a RawValue) -> Result<(), BadRequest>,
) -> Result<(), BadRequest> {
    let trouble = Trouble::default();
    let seed = Each { seed: Raw, param, trouble: &trouble, each };
    let mut json = serde_json::Deserializer::from_str(raw.get());
    seed.deserialize(&mut json).map_err(|_| trouble.inside())
}

/// Refuses a value that nests too deep for an engine's parser.
pub(crate) fn shallow(raw: &RawValue, param: Option<&'static str>) -> Result<(), BadRequest> {
    text::check_depth(raw.get().as_bytes(), MAX_DEPTH).map_err(|_| BadRequest::deep(param))
}
