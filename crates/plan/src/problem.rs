//! What is wrong with an input: the field, its value, and what to do about it.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a path through the file or the name of an option.
    pub field: String,
    /// What stands there.
    pub value: String,
    /// What to do instead.
    pub remedy: String,
}

impl Problem {
    /// A problem of `field`.
    pub fn new(
        field: impl Into<String>,
        value: impl ToString,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem { field: field.into(), value: value.to_string(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.field, self.value, self.remedy)
    }
}

/// Everything that is wrong, at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// One problem alone.
    pub fn one(
        field: impl Into<String>,
        value: impl ToString,
        remedy: impl Into<String>,
    ) -> Problems {
        Problems(vec![Problem::new(field, value, remedy)])
    }

    /// `Ok` where nothing is wrong.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Notes a problem unless `ok`.
    pub(crate) fn unless(
        &mut self,
        ok: bool,
        field: impl Into<String>,
        value: impl ToString,
        remedy: impl Into<String>,
    ) {
        if !ok {
            self.0.push(Problem::new(field, value, remedy));
        }
    }
}
