//! Finds the engines' private fields in a body while it is parsed, and the ranges to cut out.
//!
//! A cut removes the member with one adjacent comma, so the rest is still JSON and no byte of the
//! client's other members changes. All duplicates are removed: readers of JSON differ in which one
//! counts.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::bad::BadRequest;
use super::engine_fields::{EngineField, Name, Place};
use super::raw::{Trouble, shallow};
use super::splice::{Purpose, Splice, Splices, offset};

/// Most private fields in one body. Each splits the sent body into one more piece.
const MOST: usize = 64;

/// Collects the cuts of one body.
pub(crate) struct Strip<'c> {
    json: &'c str,
    cuts: RefCell<Splices>,
}

impl<'c> Strip<'c> {
    pub(crate) fn new(json: &'c str) -> Strip<'c> {
        Strip { json, cuts: RefCell::default() }
    }

    pub(crate) fn into_cuts(self) -> Splices {
        self.cuts.into_inner()
    }

    /// Cuts out the private field with this value. Members must be passed in their order.
    pub(crate) fn cut(&self, field: EngineField, value: &RawValue) -> Result<(), BadRequest> {
        if self.cuts.borrow().len() >= MOST {
            let what = format!(
                "there are more than {MOST} fields that only engines send each other, such as \
                 `{}`: leave them out",
                field.name()
            );
            return Err(BadRequest::new(Some(field.name()), what));
        }
        self.remove(Purpose::Strip(field), value);
        Ok(())
    }

    /// Cuts out the member with this value. Members must be passed in their order.
    pub(crate) fn remove(&self, purpose: Purpose, value: &RawValue) {
        let mut cuts = self.cuts.borrow_mut();
        let json = self.json.as_bytes();
        let start = offset(self.json, value);
        let end = start + value.get().len();
        let key = key_before(json, start);
        assert_eq!(json[key], b'"', "a member's name begins with a quote");
        let before = json[..key].trim_ascii_end().len();
        let (at, to) = match before.checked_sub(1) {
            Some(comma) if json[comma] == b',' && comma >= cuts.end() => (comma, end),
            // No comma before the member is left, so the cut takes the one after it.
            _ => (key, after_comma(json, end)),
        };
        let is_whole = at <= key && end <= to;
        assert!(is_whole && at >= cuts.end(), "members are cut whole, in their order");
        cuts.push(Splice::cut(purpose, at, to - at));
    }
}

/// The start of the name whose value starts at `start`: its opening quote. The JSON is valid, so
/// only white space and a colon are between them, and a quote inside the name comes after an odd
/// number of backslashes.
fn key_before(json: &[u8], start: usize) -> usize {
    let colon = json[..start].trim_ascii_end().len().saturating_sub(1);
    let mut at = json[..colon].trim_ascii_end().len().saturating_sub(1);
    while let Some(quote) = memchr::memrchr(b'"', &json[..at]) {
        let escapes = json[..quote].iter().rev().take_while(|b| **b == b'\\').count();
        if escapes % 2 == 0 {
            return quote;
        }
        at = quote;
    }
    0
}

/// The position after the comma that follows a value, or after the value if there is none.
fn after_comma(json: &[u8], end: usize) -> usize {
    let comma = json.len() - json[end..].trim_ascii_start().len();
    if json.get(comma) == Some(&b',') { comma + 1 } else { end }
}

/// Walks a container, or a whole body whose members are not read.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'c> {
    pub(crate) strip: &'c Strip<'c>,
    pub(crate) trouble: &'c Trouble,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(Name(&[]))? {
            match place {
                Place::Container => map.next_value_seed(self)?,
                Place::Engine(field) => {
                    let value = map.next_value()?;
                    self.strip.cut(field, value).map_err(|bad| self.trouble.stop(bad))?;
                }
                Place::Read(_) | Place::Client => {
                    let value = map.next_value()?;
                    shallow(value, None).map_err(|bad| self.trouble.stop(bad))?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
}
