//! Trees of thoughts: a question, and steps of reasoning that branch.
//!
//! SkyWalker's tree workload (section 5.1): depth 4 with 2 branches a node is 15 requests, with 4
//! branches 85. A child's prompt is its parent's prompt, the parent's reply and a short
//! instruction; the nodes of a level run at the same time; the session key is the question's.
//!
//! Questions are as long as GSM8K's: a lognormal through median 217 and 90th percentile 361
//! characters, which has their mean of 235 (its 99th percentile is 546, theirs 527). A thought is a
//! step of the solution. GSM8K's whole solutions have 72 tokens in the mean; a model that is asked
//! to reason writes about as much for each step, so that is a thought's mean here. Instructions and
//! a worked example usually precede the question, the same for all trees, but their length is not
//! published. Here they have 732 bytes: one of GSM8K's questions with its answer (523), and enough
//! instruction that requests sent at random to 12 unbounded caches find 59 % of their tokens,
//! SkyWalker's figure for round robin and least load. One cache for all would find 96 %;
//! SkyWalker's own policy reached 90 %. All text is made up.
//!
//! The wide tree is ours: a long question that no other tree shares, and 24 steps that start at the
//! same time. A policy that sends each step to the least loaded replica computes the question many
//! times.

use std::time::Duration;

use crate::lengths::Lengths;
use crate::spec::{GeneratorParam, GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{Generator, Node, Program, ProgramKey, Role, Segment};

/// The generator of trees of 15 requests.
pub(crate) static TREE2: GeneratorSpec = GeneratorSpec {
    name: "tree2",
    summary: "Trees of thoughts with 2 branches: 15 requests.",
    source: "SkyWalker section 5.1; lengths of GSM8K",
    load: PublishedLoad::Clients(&[40, 20, 20]),
    params: &params([2.0, 4.0], 235.0, NARROW),
    make: |params| Box::new(Tree::of(params)),
};

/// The generator of trees of 85 requests.
pub(crate) static TREE4: GeneratorSpec = GeneratorSpec {
    name: "tree4",
    summary: "Trees of thoughts with 4 branches: 85 requests.",
    source: "SkyWalker section 5.1; lengths of GSM8K",
    load: PublishedLoad::Clients(&[2, 0, 0]),
    params: &params([4.0, 4.0], 235.0, NARROW),
    make: |params| Box::new(Tree::of(params)),
};

/// The generator of trees with many children.
pub(crate) static WIDE_TREE: GeneratorSpec = GeneratorSpec {
    name: "wide_tree",
    summary: "A long question and 24 steps that start at once: 25 requests.",
    source: "ours: the children of one root scatter over replicas",
    load: PublishedLoad::Any,
    params: &params([24.0, 2.0], 24_000.0, WIDE),
    make: |params| Box::new(Tree::of(params)),
};

/// Most children and most levels: together they bound the requests of a tree.
const NARROW: [f64; 2] = [8.0, 6.0];
const WIDE: [f64; 2] = [64.0, 3.0];

/// Children and levels; mean bytes of a question.
const fn params(shape: [f64; 2], question_bytes: f64, most: [f64; 2]) -> [GeneratorParam; 7] {
    const BYTES: (f64, f64) = (1.0, 1e6);
    [
        knob("branch", shape[0], (1.0, most[0]), "children of a node"),
        knob("depth", shape[1], (1.0, most[1]), "levels, the root's included"),
        knob(
            "system_bytes",
            732.0,
            (0.0, 1e6),
            "bytes of the worked examples that all trees share",
        ),
        knob("question_bytes", question_bytes, BYTES, "mean bytes of the question at the root"),
        knob("instruction_bytes", 64.0, BYTES, "bytes of the instruction that opens a child"),
        knob("thought_tokens", 72.0, (1.0, 1e5), "mean tokens of a reply"),
        knob("thought_cv", 0.5, (0.0, 5.0), "coefficient of variation of a reply's tokens"),
    ]
}

/// Generates trees.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Children a node has.
    pub branch: u32,
    /// Levels, the root's included.
    pub depth: u32,
    /// Bytes of the examples that precede every question; 0 for none.
    pub system_bytes: u32,
    /// Mean bytes of a question (lognormal, coefficient of variation 0.413).
    pub question_bytes: u32,
    /// Bytes of the instruction that opens a child.
    pub instruction_bytes: u32,
    /// Tokens of each reply; their mean if they vary.
    pub max_tokens: u32,
    /// Coefficient of variation of the reply's tokens (lognormal); 0 for equal replies.
    pub reply_cv: f64,
}

/// The coefficient of variation of GSM8K's questions.
const QUESTION_CV: f64 = 0.413;

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            branch: 2,
            depth: 4,
            system_bytes: 0,
            question_bytes: 235,
            instruction_bytes: 64,
            max_tokens: 64,
            reply_cv: 0.0,
        }
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
    fn of(params: &GeneratorParams) -> Tree {
        Tree {
            branch: params.count("branch"),
            depth: params.count("depth"),
            system_bytes: params.count("system_bytes"),
            question_bytes: params.count("question_bytes"),
            instruction_bytes: params.count("instruction_bytes"),
            max_tokens: params.count("thought_tokens"),
            reply_cv: params.number("thought_cv"),
        }
    }

    fn node(&self, key: ProgramKey, parent: Option<usize>, level: u32, path: u64) -> Node {
        let mut rng = key.rng(path);
        let id = rng.next_u64();
        let mut adds = Vec::with_capacity(2);
        let bytes = match parent {
            None => rng.lognormal(f64::from(self.question_bytes), QUESTION_CV) as u32,
            Some(_) => self.instruction_bytes,
        };
        if parent.is_none() && self.system_bytes > 0 {
            adds.push(Segment { role: Role::System, id: key.shared(2), bytes: self.system_bytes });
        }
        adds.push(Segment { role: Role::User, id, bytes: bytes.max(1) });
        let max_tokens = match self.reply_cv {
            0.0 => self.max_tokens,
            cv => Lengths::by_mean(f64::from(self.max_tokens), cv, MOST).draw(&mut rng),
        };
        Node { parent, level, adds, max_tokens, think: Duration::ZERO, reply: None }
    }
}

/// Most tokens of a thought.
const MOST: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    // A wide tree is a root of some 6,000 tokens and 24 children of it, on two levels.
    #[test]
    fn a_wide_tree_has_one_root() {
        let generator = WIDE_TREE.published();
        let key = |ordinal| ProgramKey { seed: 1, region: 0, client: 0, ordinal };
        let program = generator.program(key(0));
        assert_eq!(program.nodes.len(), 25);
        assert!(program.nodes[1..].iter().all(|n| n.parent == Some(0) && n.level == 1));
        let root = |ordinal| generator.program(key(ordinal)).nodes[0].adds[1].bytes;
        let mean = (0..500).map(root).map(f64::from).sum::<f64>() / 500.0;
        assert!((mean / 24_000.0 - 1.0).abs() < 0.05, "{mean}");
    }
}
