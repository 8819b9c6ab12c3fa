//! The place of a value in a file, as messages write it: `replicas[1].url`.

use std::fmt;

/// One step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The field of a section.
    Field(String),
    /// An entry of a list, by its place in the file.
    Entry(usize),
}

/// The steps from the top of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// The path with which a message starts, in `replicas[1].url: is missing`.
    pub(super) fn of_message(text: &str) -> Option<Path> {
        let (head, _) = text.split_once(": ")?;
        Path::parse(head)
    }

    /// Reads `replicas[1].url`.
    pub(super) fn parse(text: &str) -> Option<Path> {
        let mut steps = Vec::new();
        for part in text.split('.') {
            let (name, places) = part.split_once('[').map_or((part, None), |(n, p)| (n, Some(p)));
            // Models have slashes and colons in their names.
            let fits = |c: char| c.is_ascii_alphanumeric() || "_-/:".contains(c);
            let is_list = name.is_empty() && steps.is_empty() && places.is_some();
            if !name.chars().all(fits) || (name.is_empty() && !is_list) {
                return None;
            }
            if !is_list {
                steps.push(Step::Field(name.to_owned()));
            }
            for place in places.map(|places| places.strip_suffix(']')).into_iter() {
                for place in place?.split("][") {
                    steps.push(Step::Entry(place.parse().ok()?));
                }
            }
        }
        assert!(!steps.is_empty(), "a path that is read has steps");
        Some(Path(steps))
    }

    /// Whether one of them contains the other.
    pub(super) fn overlaps(&self, other: &Path) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }

    /// The field's name at the top of the file.
    pub(super) fn section(&self) -> Option<&str> {
        match self.0.first()? {
            Step::Field(name) => Some(name),
            Step::Entry(_) => None,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Entry(place) => write!(f, "[{place}]")?,
            }
        }
        Ok(())
    }
}
