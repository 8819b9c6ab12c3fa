//! A secret of a configuration file: a key, a token or a password.
//!
//! It is written as a text, as `${NAME}` for an environment variable, or as `{file: PATH}`. The value is
//! read with the configuration, so a reload reads it again. No message, no `Debug` and no printed
//! configuration shows it.
//!
//! A text that stands in for a secret, such as `changeme`, is refused: the process would send it as it
//! is, and every request would fail far from the cause.

mod file;
mod placeholder;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use placeholder::variable;

/// What is printed in place of a text.
const SHOWN: &str = "(set)";
/// The forms of a secret, for messages.
const FORMS: &str = "a text, `${NAME}` for an environment variable, or `{file: PATH}`";

/// A secret, and where it comes from. Two are equal if their values are.
#[derive(Clone)]
pub struct Secret {
    text: String,
    source: SecretSource,
}

#[derive(Clone, Debug)]
enum SecretSource {
    Text,
    Variable(String),
    File(PathBuf),
}

impl Secret {
    /// The value. It goes nowhere but to the place that it is for.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Reads a text as it stands in a file.
    fn written(text: &str) -> Result<Secret, String> {
        if let Some(name) = variable(text) {
            let text = of_variable(name)?;
            return Ok(Secret { text, source: SecretSource::Variable(name.to_owned()) });
        }
        match placeholder::problem(text).or_else(|| placeholder::reference(text)) {
            Some(problem) => Err(problem.to_owned()),
            None => Ok(Secret::from(text)),
        }
    }

    fn of_file(path: PathBuf) -> Result<Secret, String> {
        let text = file::read(&path)?;
        match placeholder::problem(&text) {
            Some(problem) => Err(format!("the text in {} {problem}", path.display())),
            None => Ok(Secret { text, source: SecretSource::File(path) }),
        }
    }
}

fn of_variable(name: &str) -> Result<String, String> {
    let at = format!("the environment variable `{name}`");
    let Some(text) = std::env::var_os(name) else {
        return Err(format!("{at} is not set; set it for this process, or write `{{file: PATH}}`"));
    };
    let text = text.into_string().map_err(|_| format!("{at} is not UTF-8 text; set it again"))?;
    match placeholder::problem(&text) {
        Some(problem) => Err(format!("{at} {problem}")),
        None => Ok(text),
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret { text: text.to_owned(), source: SecretSource::Text }
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.text == other.text
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

thread_local! {
    /// Whether this thread serializes values, and not their places.
    static REVEALED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, in which secrets serialize as their values: to compare two configurations, or to write one
/// for another process.
pub(crate) fn revealed<T>(f: impl FnOnce() -> T) -> T {
    struct Hide(bool);
    impl Drop for Hide {
        fn drop(&mut self) {
            REVEALED.set(self.0);
        }
    }
    let _hide = Hide(REVEALED.replace(true));
    f()
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.source {
            _ if REVEALED.get() => to.serialize_str(&self.text),
            SecretSource::Text => to.serialize_str(SHOWN),
            SecretSource::Variable(name) => to.serialize_str(&format!("${{{name}}}")),
            SecretSource::File(path) => {
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry("file", path)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        from.deserialize_any(SecretForm)
    }
}

/// Reads a field that may be absent, and not empty: an empty value is what a template left.
pub(crate) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    Secret::deserialize(from).map(Some)
}

struct SecretForm;

impl<'de> Visitor<'de> for SecretForm {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
        Secret::written(text).map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Secret, E> {
        Err(E::custom(placeholder::EMPTY))
    }

    fn visit_none<E: de::Error>(self) -> Result<Secret, E> {
        self.visit_unit()
    }

    // The readers' own messages about these would show the value.
    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Secret, E> {
        Err(E::custom(UNQUOTED))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
        Err(E::custom(UNQUOTED))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
        Err(E::custom(UNQUOTED))
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<Secret, E> {
        Err(E::custom(UNQUOTED))
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Secret, E> {
        Err(E::custom(UNQUOTED))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
        Err(E::custom(UNQUOTED))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Secret, A::Error> {
        let mut path: Option<PathBuf> = None;
        while let Some(name) = map.next_key::<String>()? {
            if name != "file" {
                return Err(de::Error::custom(format!(
                    "`{name}` does not fit here; write {FORMS}"
                )));
            }
            path = Some(map.next_value()?);
        }
        let path = path.ok_or_else(|| de::Error::custom(format!("is empty; write {FORMS}")))?;
        Secret::of_file(path).map_err(de::Error::custom)
    }
}

const UNQUOTED: &str =
    "is a number or a yes or no in YAML, which may change its characters; put it in quotes";
