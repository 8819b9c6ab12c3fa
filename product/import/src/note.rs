//! The place of a setting in the file, and the note about one that is not converted.

use std::fmt;

/// A setting in the file to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its name: a directive, a flag, a path in the YAML.
    field: String,
    /// Its value, if it can be shown.
    value: Option<String>,
    /// File and line; empty if the field is enough to find it.
    place: String,
}

impl Found {
    /// A setting whose value cannot be a secret.
    pub(super) fn new(field: &str, value: &str, place: &str) -> Found {
        Found { value: Some(cut(value)), ..Found::hidden(field, place) }
    }

    /// A setting whose value may be a secret: it is not shown.
    pub(super) fn hidden(field: &str, place: &str) -> Found {
        Found { field: cut(field), value: None, place: cut(place) }
    }

    /// The same without its value.
    pub(super) fn hide(&self) -> Found {
        Found { value: None, ..self.clone() }
    }
}

/// Cuts a text to one short line, because values can be long and a comment ends with its line.
fn cut(text: &str) -> String {
    const MOST: usize = 60;
    let plain =
        |c: char| if c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric() { c } else { '?' };
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words: String = words.chars().map(plain).collect();
    if let Some((at, _)) = words.char_indices().nth(MOST) {
        words.truncate(at);
        words.push_str("...");
    }
    assert!(!words.contains('\n'), "a comment is one line");
    words
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        if let Some(value) = self.value.as_deref().filter(|value| !value.is_empty()) {
            write!(f, " {value}")?;
        }
        match self.place.as_str() {
            "" => Ok(()),
            place => write!(f, " ({place})"),
        }
    }
}

/// A setting that is not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    found: Found,
    why: String,
    remedy: String,
    /// It is converted, and there is something better.
    is_advice: bool,
}

impl Note {
    pub(super) fn new(found: &Found, why: impl Into<String>, remedy: impl Into<String>) -> Note {
        Note { found: found.clone(), why: why.into(), remedy: remedy.into(), is_advice: false }
    }

    /// A setting that is converted, and that is better left out.
    pub(super) fn advice(found: &Found, why: impl Into<String>, remedy: impl Into<String>) -> Note {
        Note { is_advice: true, ..Note::new(found, why, remedy) }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_advice { "worth a look" } else { "not converted" };
        write!(f, "{kind}: {}: {}; {}", self.found, self.why, self.remedy)
    }
}
