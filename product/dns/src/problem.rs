//! A setting that can't be used, as a message for the operator.

/// A mistake in the settings or in the map of clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value}: {cause}; {remedy}")]
pub struct Problem {
    /// The field, or the file and line.
    pub field: String,
    /// The value that is there.
    pub value: String,
    /// Why it can't be used.
    pub cause: String,
    /// What to write instead.
    pub remedy: String,
}

impl Problem {
    pub(crate) fn new(
        field: impl Into<String>,
        value: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        let (field, value) = (field.into(), value.into());
        Problem { field, value, cause: cause.into(), remedy: remedy.into() }
    }
}

/// Most problems that are reported at once: a file of the wrong form has one in every line.
const MOST: usize = 20;

/// Keeps the first problems and counts the others.
#[derive(Default)]
pub(crate) struct Problems {
    kept: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.kept.len() < MOST {
            self.kept.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// The value if there was no problem.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Vec<Problem>> {
        if self.kept.is_empty() {
            return Ok(value);
        }
        if self.more > 0 {
            let more = format!("{} more problems", self.more);
            self.kept.push(Problem::new("and", more, "not listed", "mend those above first"));
        }
        Err(self.kept)
    }
}
