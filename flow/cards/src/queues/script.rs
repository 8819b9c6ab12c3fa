//! Commands of `tc` with comments, as text to read and as a batch to run.

use std::fmt;

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A comment.
    Note(String),
    /// The arguments of one `tc` command.
    Tc(String),
}

/// Commands in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    lines: Vec<Line>,
}

impl Script {
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Note(text.into()));
    }

    pub(crate) fn tc(&mut self, arguments: impl Into<String>) {
        let arguments = arguments.into();
        assert!(!arguments.contains('\n'), "a command is one line");
        self.lines.push(Line::Tc(arguments));
    }

    /// The arguments of its commands.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Tc(arguments) => Some(arguments.as_str()),
            Line::Note(_) => None,
        })
    }
}

/// As a shell script.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            match line {
                Line::Note(text) => writeln!(f, "# {text}")?,
                Line::Tc(arguments) => writeln!(f, "tc {arguments}")?,
            }
        }
        Ok(())
    }
}
