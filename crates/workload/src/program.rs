//! Programs: trees of requests, each prompt the path from the root.

use crate::ProgramKey;

/// Who speaks a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The system prompt.
    System,
    /// The client.
    User,
    /// The model, in an earlier turn.
    Assistant,
}

/// A piece of prompt whose text follows from `id`: equal ids begin with equal text, whatever
/// their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Who speaks.
    pub role: Role,
    /// What the text is drawn from.
    pub id: u64,
    /// Length of the text in bytes (ASCII).
    pub bytes: u32,
}

/// One request of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node whose prompt and reply this prompt begins with; None at a root. Always an earlier
    /// node of the list.
    pub parent: Option<usize>,
    /// Distance from the root.
    pub level: u32,
    /// What this node adds to the prompt.
    pub adds: Vec<Segment>,
    /// Tokens of reply asked for; a simulated engine answers with exactly that many.
    pub max_tokens: u32,
}

/// One conversation or tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it was drawn from.
    pub key: ProgramKey,
    /// What hashing policies hash: the same for all requests of the program.
    pub session: u64,
    /// Its requests, parents before children, levels in order.
    pub nodes: Vec<Node>,
}

impl Program {
    /// A program of one path: turn after turn, each with its segments and reply length.
    #[must_use]
    pub fn path(key: ProgramKey, turns: Vec<(Vec<Segment>, u32)>) -> Program {
        let nodes = turns
            .into_iter()
            .enumerate()
            .map(|(i, (adds, max_tokens))| Node {
                parent: i.checked_sub(1),
                level: u32::try_from(i).unwrap_or(u32::MAX),
                adds,
                max_tokens,
            })
            .collect();
        Program { key, session: key.id(), nodes }
    }
}
