//! Common parts of all configuration files: each is read in full, checked in full, and printed with
//! its defaults written out.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Format;
use super::problem::Problem;
use super::secret::revealed;
use super::yaml::{Document, diagnose, stray};

/// All problems of a configuration.
#[derive(Debug)]
pub struct ConfigError {
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<Vec<String>> for ConfigError {
    fn from(texts: Vec<String>) -> ConfigError {
        ConfigError { problems: texts.into_iter().map(Problem::from).collect() }
    }
}

/// Reads a file strictly, and checks it with `problems`, whose messages start with the path of a field.
///
/// # Errors
/// Every mistake, with its line, field, value and remedy.
pub fn read<T: DeserializeOwned>(
    yaml: &str,
    format: Format,
    problems: impl FnOnce(&T) -> Vec<String>,
) -> Result<T, ConfigError> {
    // An error goes to a log, and the lines around it may contain a secret.
    let options = serde_saphyr::options! { with_snippet: false };
    let found = match serde_saphyr::from_str_with_options::<T>(yaml, options) {
        Ok(config) => {
            let mut found = stray(yaml);
            found.extend(locate(yaml, problems(&config)));
            if found.is_empty() {
                return Ok(config);
            }
            found
        }
        Err(error) => {
            let found = diagnose(yaml, format, problems);
            // The two readers differ; the first one decides.
            if found.is_empty() { vec![error.to_string().into()] } else { found }
        }
    };
    assert!(!found.is_empty(), "a file that is refused has a problem");
    Err(ConfigError { problems: found })
}

/// Adds the lines of the file to messages that start with the path of a field.
#[must_use]
pub fn locate(yaml: &str, messages: Vec<String>) -> Vec<Problem> {
    if messages.is_empty() {
        return Vec::new();
    }
    match Document::read(yaml) {
        Ok(document) => document.locate(messages),
        Err(_) => messages.into_iter().map(Problem::from).collect(),
    }
}

/// Whether a file has a field at its top.
pub(crate) fn has_field(yaml: &str, name: &str) -> bool {
    Document::read(yaml).is_ok_and(|document| document.has(name))
}

/// A configuration as a file.
///
/// # Errors
/// If a value has no form in YAML.
pub fn print(config: &impl Serialize) -> Result<String, ConfigError> {
    serde_saphyr::to_string(config).map_err(|e| ConfigError::from(vec![e.to_string()]))
}

/// The top-level fields in which two configurations differ, in order.
pub fn changed_sections<T: Serialize>(a: &T, b: &T) -> Vec<String> {
    let fields = |config: &T| match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (a, b) = revealed(|| (fields(a), fields(b)));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}
