//! A mix of shapes: each program is drawn from one of several generators.

use crate::{Generator, Program, ProgramKey};

/// Draws each program from one of its parts, so that every part sends the same share of the
/// *requests*: a tree of 85 requests is 85 times as rare as a single question.
pub struct Mixed {
    parts: Vec<Box<dyn Generator>>,
}

impl Mixed {
    /// A mix of `parts`.
    ///
    /// # Panics
    /// When there are no parts.
    #[must_use]
    pub fn new(parts: Vec<Box<dyn Generator>>) -> Mixed {
        assert!(!parts.is_empty(), "a mix has at least one part");
        Mixed { parts }
    }

    fn weights(&self) -> f64 {
        self.parts.iter().map(|p| 1.0 / p.mean_requests().max(1.0)).sum()
    }
}

impl Generator for Mixed {
    fn program(&self, key: ProgramKey) -> Program {
        // The choice has a separate path; a part then draws as it would alone.
        let mut u = key.rng(u64::MAX - 1).unit() * self.weights();
        for part in &self.parts {
            u -= 1.0 / part.mean_requests().max(1.0);
            if u < 0.0 {
                return part.program(key);
            }
        }
        self.parts[self.parts.len() - 1].program(key)
    }

    fn mean_requests(&self) -> f64 {
        self.parts.len() as f64 / self.weights()
    }
}
