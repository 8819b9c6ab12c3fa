//! The recordings: each router's choices, one digit per request.

use std::fmt;
use std::path::PathBuf;

use super::replay::{Choice, Replay, Rule};
use super::sequence::{self, Event};

/// The recorded choices of one router with one policy.
pub(crate) struct Recording {
    pub(crate) title: String,
    pub(crate) events: Vec<Event>,
    pub(crate) choices: Vec<u16>,
}

impl Recording {
    /// The recording called `policy` (with its flags) of `router`.
    pub(crate) fn of(router: &str, policy: &str) -> Recording {
        let title = format!("{router} {policy}");
        let text = read(&format!("{router}.txt"));
        let mut lines = text.lines().skip_while(|line| *line != title).skip(1).peekable();
        assert!(lines.peek().is_some(), "{router}.txt has no recording called {title:?}");
        let digits = lines.take_while(|line| !line.is_empty()).flat_map(str::bytes);
        let choices = digits.map(|digit| u16::from(digit - b'0')).collect();
        Recording { title, events: sequence::read(&read("sequence.txt")), choices }
    }

    /// Compares a rule with the recorded choices, and prints how well it agrees.
    pub(crate) fn judge(&self, rule: &Rule) -> Agreement {
        let choices = Replay::new(rule).judge(&self.events, &self.choices);
        let agreement = Agreement::of(&choices);
        println!("{}: {agreement}", self.title);
        for choice in choices.iter().filter(|choice| !choice.agrees()).take(5) {
            println!("    {choice:?}");
        }
        agreement
    }
}

/// A file of the shipped recordings, or of those in $REFERENCE.
fn read(name: &str) -> String {
    let shipped = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let dir = std::env::var_os("REFERENCE").map_or_else(shipped, PathBuf::from);
    let path = dir.join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{} cannot be read: {e}", path.display()))
}

/// How a rule compares with a recording, over all its requests.
#[derive(Debug)]
pub(crate) struct Agreement {
    pub(crate) requests: usize,
    /// Percent of the requests that went to a replica that our rule may choose: the one it chooses,
    /// or one that it considers equal.
    pub(crate) percent: f64,
    /// Percent that went to the one that our rule chooses when asked once.
    pub(crate) same: f64,
    /// Replicas it may choose, on average: 1 leaves no freedom, 5 all.
    pub(crate) options: f64,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { requests, percent, same, options } = self;
        write!(f, "{percent:.2} % of {requests} agree, {same:.2} % the same; ")?;
        write!(f, "{options:.2} options on average")
    }
}

impl Agreement {
    fn of(choices: &[Choice]) -> Agreement {
        let share = |count: usize| 100.0 * count as f64 / choices.len() as f64;
        let options: usize = choices.iter().map(|choice| choice.options.len()).sum();
        Agreement {
            requests: choices.len(),
            percent: share(choices.iter().filter(|choice| choice.agrees()).count()),
            same: share(choices.iter().filter(|choice| choice.first == choice.theirs).count()),
            options: options as f64 / choices.len() as f64,
        }
    }

    /// Fails below the agreement that every rule must reach.
    #[track_caller]
    pub(crate) fn holds(&self) {
        assert!(self.requests >= 1000, "{self:?} is too short to tell");
        assert!(self.percent >= 99.0, "{self:?}: below 99 %");
    }
}
