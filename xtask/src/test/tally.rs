//! Counts the results that test programs report.

use std::fmt;
use std::ops::AddAssign;

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Parses a test program's last line; `None` for any other line.
    ///
    /// `test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in …`
    pub(crate) fn of_line(line: &str) -> Option<Tally> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            let words = counts.split(';').find_map(|part| part.trim().strip_suffix(what))?;
            words.trim().parse().ok()
        };
        Some(Tally { passed: count("passed")?, failed: count("failed")? })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Both verdicts carry both counts.
    #[test]
    fn reads_closing_lines() {
        let ok = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
                  finished in 0.01s";
        let bad = "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured";
        assert_eq!(Tally::of_line(ok), Some(Tally { passed: 5, failed: 0 }));
        assert_eq!(Tally::of_line(bad), Some(Tally { passed: 7, failed: 2 }));
    }

    // Other output of a test is not counted.
    #[test]
    fn other_lines_are_none() {
        assert_eq!(Tally::of_line("test a::b ... ok"), None);
        assert_eq!(Tally::of_line("running 5 tests"), None);
        assert_eq!(Tally::of_line("test result: unclear"), None);
    }
}
