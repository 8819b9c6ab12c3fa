//! Reads YAML files written by users, and reports their errors in words.

use anyhow::anyhow;
use serde::de::DeserializeOwned;

/// The parser's messages for numbers that do not fit their field, and their replacements. The
/// parser shows the line, with the field and its value.
const NUMBERS: [(&str, &str); 6] = [
    ("invalid u8", "not a whole number from 0 to 255"),
    ("invalid u16", "not a whole number from 0 to 65535"),
    ("invalid u32", "not a whole number from 0 to 4294967295"),
    ("invalid u64", "not a whole number of 0 or more"),
    ("invalid usize", "not a whole number of 0 or more"),
    ("invalid f64", "not a number, as in 0.5"),
];

/// Reads a file's text as `what`.
///
/// # Errors
/// Syntax, an unknown key, a wrong type, with its line.
pub(crate) fn read<T: DeserializeOwned>(yaml: &str, what: &str) -> anyhow::Result<T> {
    serde_saphyr::from_str(yaml).map_err(|error| {
        let said =
            NUMBERS.iter().fold(error.to_string(), |said, (of, words)| said.replace(of, words));
        anyhow!("not {what}: {said}")
    })
}
