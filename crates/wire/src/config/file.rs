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
    // An error goes to a log, and the lines around it may hold a secret.
    let options = serde_saphyr::options! { with_snippet: false };
    let config = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|e| ConfigError::Unreadable(e.to_string()))?;
    let problems = problems(&config);
    if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
}

/// A configuration as a file.
pub(crate) fn print(config: &impl Serialize) -> Result<String, ConfigError> {
    serde_saphyr::to_string(config).map_err(|e| ConfigError::Unreadable(e.to_string()))
}
