//! Trees of thoughts: a question, and steps of reasoning that branch.
//!
//! SkyWalker's tree workload (its section 4): depth 4 with 2 branches a node is 15 requests, with
//! 4 branches 85. A child's prompt is its parent's prompt, the parent's reply and a short
//! instruction; the nodes of a level run at the same time; the session key is the question's.
//! Questions are as long as grade-school maths problems, about 60 tokens. Their text is made up.

use std::time::Duration;

use crate::{Generator, Node, Program, ProgramKey, Role, Segment};

/// Makes trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Children a node has.
    pub branch: u32,
    /// Levels, the root's included.
    pub depth: u32,
    /// Mean bytes of a question (lognormal, coefficient of variation 0.4).
    pub question_bytes: u32,
    /// Bytes of the instruction that opens a child.
    pub instruction_bytes: u32,
    /// Tokens of reply asked for.
    pub max_tokens: u32,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { branch: 2, depth: 4, question_bytes: 240, instruction_bytes: 64, max_tokens: 64 }
    }
}

impl Generator for Tree {
    fn program(&self, key: ProgramKey) -> Program {
        let mut nodes: Vec<Node> = Vec::new();
        let mut above = 0..0;
        for level in 0..self.depth {
            let start = nodes.len();
            if level == 0 {
                nodes.push(self.node(key, None, 0, 0));
            }
            for parent in above {
                for _ in 0..self.branch {
                    nodes.push(self.node(key, Some(parent), level, nodes.len() as u64));
                }
            }
            above = start..nodes.len();
        }
        Program::new(key, nodes)
    }

    fn mean_requests(&self) -> f64 {
        (0..self.depth).map(|level| libm::pow(f64::from(self.branch), f64::from(level))).sum()
    }
}

impl Tree {
    fn node(&self, key: ProgramKey, parent: Option<usize>, level: u32, path: u64) -> Node {
        let mut rng = key.rng(path);
        let id = rng.next_u64();
        let bytes = match parent {
            None => rng.lognormal(f64::from(self.question_bytes), 0.4) as u32,
            Some(_) => self.instruction_bytes,
        };
        let adds = vec![Segment { role: Role::User, id, bytes: bytes.max(1) }];
        Node { parent, level, adds, max_tokens: self.max_tokens, think: Duration::ZERO }
    }
}
