//! A value that does not fit its field.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::path::{Path, Step};
use crate::suggest;

/// The reason why a value cannot be read, and its place.
#[derive(Debug)]
pub(super) struct Fault {
    /// Steps from the value outwards, innermost first.
    inside_out: Vec<Step>,
    /// The mistake and its remedy.
    pub(super) text: String,
    /// The part to repair.
    pub(super) repair: Repair,
}

/// The change that lets the rest of the file be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Take out the value at the place.
    TakeOut,
    /// The value at the place is missing.
    Add(&'static str),
}

impl Fault {
    pub(super) fn new(text: impl Into<String>) -> Fault {
        Fault { inside_out: Vec::new(), text: text.into(), repair: Repair::TakeOut }
    }

    /// The same fault, seen from the section or list around it.
    pub(super) fn inside(mut self, step: Step) -> Fault {
        self.inside_out.push(step);
        self
    }

    /// The place of the value, or of the section in which it is missing.
    pub(super) fn path(&self) -> Path {
        Path(self.inside_out.iter().rev().cloned().collect())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Fault {
        Fault::new(text.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Fault {
        Fault::new(format!("{} does not fit here; write {wanted}", plain(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Fault {
        Fault::new(format!("{} does not fit here; write {wanted}", plain(found)))
    }

    fn invalid_length(count: usize, wanted: &dyn Expected) -> Fault {
        Fault::new(format!("has {count} entries; write {wanted}"))
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Fault {
        Fault::new(format!("`{name}` is unknown; {}", suggest(name, known)))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Fault {
        Fault::new(super::shape::unknown_field(name, known))
    }

    fn missing_field(name: &'static str) -> Fault {
        Fault { repair: Repair::Add(name), ..Fault::new(super::shape::missing_field(name)) }
    }

    fn duplicate_field(name: &'static str) -> Fault {
        Fault::new(format!("`{name}` is given twice; remove one"))
    }
}

/// A value in words.
fn plain(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("`{value}`"),
        Unexpected::Signed(value) => format!("`{value}`"),
        Unexpected::Float(value) => format!("`{value}`"),
        Unexpected::Str(value) => format!("`{value}`"),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map | Unexpected::StructVariant => "a section".to_owned(),
        Unexpected::Unit | Unexpected::Option => "an empty value".to_owned(),
        _ => "this value".to_owned(),
    }
}
