//! All members of an object with raw values, for decisions that depend on unknown members, too.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members, in their order.
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

/// Most objects of answers have no more members.
const USUAL: usize = 8;

impl<'a> Members<'a> {
    /// None if it is not an object.
    pub(super) fn of(json: &'a str) -> Option<Members<'a>> {
        serde_json::from_str(json).ok()
    }

    /// A member that is present and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let raw = self.0.iter().find(|(n, _)| n == name).map(|(_, raw)| *raw)?;
        (raw.get() != "null").then_some(raw)
    }

    /// Whether every member except `names` is null or empty.
    pub(super) fn nothing_but(&self, names: &[&str]) -> bool {
        self.0.iter().all(|(name, raw)| names.contains(&&**name) || is_nothing(raw))
    }
}

/// Null, or empty.
pub(super) fn is_nothing(raw: &RawValue) -> bool {
    let text = raw.get();
    let inside = |open, close| {
        let inside = text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
        inside.is_some_and(|inside: &str| inside.trim_ascii().is_empty())
    };
    text == "null" || text == "\"\"" || inside('[', ']') || inside('{', '}')
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Members<'a>, D::Error> {
        d.deserialize_map(Collect)
    }
}

/// A member's name, in place unless it has escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Members<'de>;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::with_capacity(USUAL);
        while let Some(Name(name)) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(Members(members))
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}
