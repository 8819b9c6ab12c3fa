//! Problems of an input: the field, its value, and the remedy.

use std::fmt;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path through the file, or the name of an option.
    pub field: String,
    /// The value found.
    pub value: String,
    /// The remedy.
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

/// All problems at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// A single problem.
    pub fn one(
        field: impl Into<String>,
        value: impl ToString,
        remedy: impl Into<String>,
    ) -> Problems {
        Problems(vec![Problem::new(field, value, remedy)])
    }

    /// `Ok` if there are no problems.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Adds a problem unless `ok`.
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

/// The remedy for an unknown name: the nearest known one, and all.
#[must_use]
pub fn one_of(name: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match nearest(name, known) {
        Some(near) => format!("{near}; known are {all}"),
        None => format!("one of {all}"),
    }
}

/// A known name that contains this one or is contained in it, the longest of them; otherwise the
/// most similar, if any is.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    if name.is_empty() {
        return None;
    }
    let part = known.iter().filter(|one| name.contains(**one)).max_by_key(|one| one.len());
    let whole = known.iter().filter(|one| one.contains(&name)).min_by_key(|one| one.len());
    let similarity = |one: &&&str| strsim::jaro_winkler(&name, one);
    let most = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    part.or(whole).or(most.filter(|one| similarity(one) > SIMILAR)).copied()
}

/// From this similarity on, a name counts as a misspelling.
const SIMILAR: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    // A name with more or fewer parts, or with a typo, leads to the known one; an unrelated one
    // does not.
    #[test]
    fn the_nearest_name_is_said() {
        let known = ["l4", "a100", "a100-40g", "h100", "heroserve-2track"];
        for (name, near) in [
            ("A100-80GB", "a100"),
            ("a100-40gb", "a100-40g"),
            ("nvidia-h100-sxm", "h100"),
            ("h10", "h100"),
            ("heroserve-2trak", "heroserve-2track"),
        ] {
            assert_eq!(nearest(name, &known), Some(near));
        }
        assert_eq!((nearest("mi300x", &known), nearest("", &known)), (None, None));
        assert_eq!(one_of("tpu", &["l4", "h100"]), "one of l4, h100");
    }
}
