//! The fields of a line of JSON, each taken by name and checked.
//!
//! Values stay unparsed until they are requested, so a foreign trace may have additional fields,
//! and an error can name the field.

use std::collections::BTreeMap;
use std::sync::Arc;

use meridian_base::Time;
use serde_json::value::RawValue;

use super::{Fault, MAX_BLOCK_TOKENS, MAX_TOKENS};

/// The fields of one line that have not been taken yet.
pub(crate) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

const OBJECT: &str = "write one JSON object a line";

impl<'a> Fields<'a> {
    pub(crate) fn of(line: &'a str) -> Result<Fields<'a>, Fault> {
        serde_json::from_str(line).map(Fields).map_err(|error| {
            // The parser's own message may quote the line, so only the position is reported.
            let is = format!("not a JSON object (column {})", error.column());
            let fault = Fault::new("the line", is, OBJECT);
            if error.is_eof() { fault.unfinished() } else { fault }
        })
    }

    /// Whether the field is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The name of a field that was not taken and does not start with `prefix`, if there is one.
    pub(crate) fn other(&self, prefix: &str) -> Option<&str> {
        self.0.keys().map(String::as_str).find(|name| !name.starts_with(prefix))
    }

    /// A time in units of `nanos` nanoseconds.
    pub(crate) fn time(&mut self, name: &str, nanos: f64) -> Result<Time, Fault> {
        let found = self.optional_time(name, nanos)?;
        found.ok_or_else(|| missing(name, "give the time since the start of the trace"))
    }

    /// The same for an optional field.
    pub(crate) fn optional_time(&mut self, name: &str, nanos: f64) -> Result<Option<Time>, Fault> {
        let remedy = "give a time from 0 to 500 years, as a number";
        let Some(raw) = self.take(name) else { return Ok(None) };
        let number: f64 = serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, remedy))?;
        let nanos = libm::round(number * nanos);
        match (0.0..1.6e19).contains(&nanos) {
            true => Ok(Some(Time::from_nanos(nanos as u64))),
            false => Err(wrong(name, raw, remedy)),
        }
    }

    /// Tokens, at least `least`.
    pub(crate) fn tokens(&mut self, name: &str, least: u32) -> Result<u32, Fault> {
        let remedy = format!("give whole tokens from {least} to {MAX_TOKENS}");
        let raw = self.take(name).ok_or_else(|| missing(name, &remedy))?;
        let tokens = serde_json::from_str(raw.get()).ok();
        let tokens = tokens.filter(|tokens| (least..=MAX_TOKENS).contains(tokens));
        tokens.ok_or_else(|| wrong(name, raw, &remedy))
    }

    /// The tokens of a block, if the line says so.
    pub(crate) fn block_tokens(&mut self, name: &str) -> Result<Option<u32>, Fault> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let tokens = serde_json::from_str(raw.get()).ok();
        let tokens = tokens.filter(|tokens| (1..=MAX_BLOCK_TOKENS).contains(tokens));
        let remedy = format!("give the tokens of a block, from 1 to {MAX_BLOCK_TOKENS}");
        tokens.map(Some).ok_or_else(|| wrong(name, raw, &remedy))
    }

    /// A list of ids; empty when it is absent.
    pub(crate) fn ids(&mut self, name: &str) -> Result<Vec<u64>, Fault> {
        let Some(raw) = self.take(name) else { return Ok(Vec::new()) };
        let remedy = "give a list of whole numbers from 0 to 18446744073709551615";
        serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, remedy))
    }

    /// A whole number, if it is there.
    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let number = serde_json::from_str(raw.get());
        number.map(Some).map_err(|_| wrong(name, raw, "give a whole number"))
    }

    /// A hash as 1 to 16 hexadecimal digits.
    pub(crate) fn hash(&mut self, name: &str) -> Result<Option<u64>, Fault> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let text: Option<String> = serde_json::from_str(raw.get()).ok();
        let digits = text.filter(|t| t.len() <= 16 && t.bytes().all(|b| b.is_ascii_hexdigit()));
        let hash = digits.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
        let remedy = "give its hash, as 1 to 16 hexadecimal digits in quotes";
        hash.map(Some).ok_or_else(|| wrong(name, raw, remedy))
    }

    /// A name: short, and of a character set that excludes sentences.
    pub(crate) fn word(&mut self, name: &str) -> Result<Option<Arc<str>>, Fault> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let text: Option<String> = serde_json::from_str(raw.get()).ok();
        let remedy = "give a name of 1 to 128 letters, digits and ._:/@+-, without spaces";
        let word = text.filter(|text| is_name(text)).map(Arc::from);
        word.map(Some).ok_or_else(|| wrong(name, raw, remedy))
    }

    /// Removes a field. One that is null counts as absent.
    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|raw| raw.get() != "null")
    }
}

/// Whether `text` may name a region, a model or a policy in a trace: short, without spaces, so that
/// a prompt cannot pass as a name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._:/@+-".contains(&b);
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

fn missing(name: &str, remedy: &str) -> Fault {
    Fault::new(name, "missing", remedy)
}

fn wrong(name: &str, raw: &RawValue, remedy: &str) -> Fault {
    let raw = raw.get();
    let is = match raw.as_bytes().first() {
        Some(b'"') => "a string that does not fit".to_owned(),
        Some(b'[') => "a list that does not fit".to_owned(),
        Some(b'{') => "an object".to_owned(),
        _ => raw.chars().take(40).collect(),
    };
    Fault::new(name, is, remedy)
}
