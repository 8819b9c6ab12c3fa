//! Reads YAML files written by users, and reports their errors in words.

use anyhow::{anyhow, ensure};
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
pub fn read<T: DeserializeOwned>(yaml: &str, what: &str) -> anyhow::Result<T> {
    let empty = yaml
        .lines()
        .all(|line| matches!(line.trim(), "" | "---") || line.trim_start().starts_with('#'));
    ensure!(!empty, "not {what}: the file is empty");
    serde_saphyr::from_str(yaml)
        .map_err(|error| anyhow!("not {what}: {}", said(&error.to_string())))
}

/// The parser's message without advice to programmers.
fn said(message: &str) -> String {
    let said = NUMBERS.iter().fold(message.to_owned(), |said, (of, words)| said.replace(of, words));
    said.replace("duplicate mapping key:", "this key is there twice; keep one of them:")
        .replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Messages speak of the file, not of the library that reads it.
    #[test]
    fn messages_are_for_users() {
        type File = std::collections::BTreeMap<String, u32>;
        let error = |yaml: &str| read::<File>(yaml, "a file").unwrap_err().to_string();
        assert_eq!(error("---\n  # nothing\n\n"), "not a file: the file is empty");
        let twice = error("a: 1\na: 2\n");
        assert!(twice.contains("this key is there twice; keep one of them: a"), "{twice}");
        assert!(!twice.contains("Policy"), "{twice}");
        let negative = error("a: -1\n");
        assert!(negative.contains("not a whole number from 0 to 4294967295"), "{negative}");
    }
}
