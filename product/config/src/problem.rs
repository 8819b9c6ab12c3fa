//! A problem of a configuration file.

use std::fmt;

/// A problem of a configuration: the field, the value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line of the field, from 1; none if the file lacks it.
    pub line: Option<usize>,
    /// Starts with the field's path if the problem is one field's.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} (line {line})", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        assert!(!text.is_empty(), "a problem has a text");
        Problem { line: None, text }
    }
}
