//! What every configuration file of ours has in common: read whole, checked whole, and printed with
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

/// Reads a configuration, unchecked.
pub(crate) fn parse<T: DeserializeOwned>(yaml: &str) -> Result<T, ConfigError> {
    // An error goes to a log, and the lines around it may hold a secret.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|e| ConfigError::Unreadable(e.to_string()))
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
