//! An object with few members and no name twice, for objects that are forwarded whole: readers of
//! JSON differ in which of two equal names counts.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of the object `json`, in their order, values unparsed. `None` if it is not one
/// object, has more than `most` members, or a name twice.
pub(super) fn members(json: &str, most: usize) -> Option<Vec<(String, &RawValue)>> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let members = parser.deserialize_map(Unique { most }).ok()?;
    parser.end().ok()?;
    Some(members)
}

struct Unique {
    most: usize,
}

impl<'de> Visitor<'de> for Unique {
    type Value = Vec<(String, &'de RawValue)>;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Self::Value::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.len() == self.most || members.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(""));
            }
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}
