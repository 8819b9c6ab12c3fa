//! Common parts of all configuration files: each is read in full, checked in full, and printed with
//! its defaults written out.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ConfigError;

/// Reads a configuration and checks it.
pub(crate) fn read<T: DeserializeOwned>(
    yaml: &str,
    problems: impl FnOnce(&T) -> Vec<String>,
) -> Result<T, ConfigError> {
    let config = parse(yaml)?;
    let problems = problems(&config);
    if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
}

/// Reads a configuration without checking it.
pub(crate) fn parse<T: DeserializeOwned>(yaml: &str) -> Result<T, ConfigError> {
    // An error goes to a log, and the lines around it may contain a secret.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|e| ConfigError::Unreadable(named(yaml, &e)))
}

/// An error that starts with the key of the wrong value. An error about a key already names it.
fn named(yaml: &str, error: &serde_saphyr::Error) -> String {
    let place = error.location().map(|at| (at.line(), at.column()));
    match place.and_then(|(line, column)| key_before(yaml, line, column)) {
        Some(key) => format!("{key}: {error}"),
        None => error.to_string(),
    }
}

/// The key of the value at a line and column, which count from 1.
fn key_before(yaml: &str, line: u64, column: u64) -> Option<&str> {
    let text = yaml.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let chars = usize::try_from(column.checked_sub(1)?).ok()?;
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let before = text[..end].trim_end_matches(['"', '\'', ' ']).strip_suffix(':')?;
    let start = before
        .rfind(|c: char| !c.is_ascii_lowercase() && c != '_')
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    Some(&before[start..]).filter(|key| !key.is_empty())
}

/// A configuration as a file.
pub(crate) fn print(config: &impl Serialize) -> Result<String, ConfigError> {
    serde_saphyr::to_string(config).map_err(|e| ConfigError::Unreadable(e.to_string()))
}

/// The top-level fields in which two configurations differ, in order.
pub fn changed_sections<T: Serialize>(a: &T, b: &T) -> Vec<String> {
    let fields = |config: &T| match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (a, b) = (fields(a), fields(b));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}
