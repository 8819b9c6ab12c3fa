//! Programs: trees of requests, each prompt the path from the root.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use meridian_base::mix;

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
#[derive(Clone, PartialEq, Eq)]
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
    /// How long the client thinks before it sends this, once the requests above it have ended.
    pub think: Duration,
    /// The text that was answered, where a trace knows it; otherwise it follows from the program.
    pub reply: Option<Arc<[Segment]>>,
}

impl fmt::Debug for Node {
    /// A reply that follows from the program is left out, as from the programs of all generators.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Node");
        shown.field("parent", &self.parent).field("level", &self.level);
        shown.field("adds", &self.adds).field("max_tokens", &self.max_tokens);
        shown.field("think", &self.think);
        if let Some(reply) = &self.reply {
            shown.field("reply", reply);
        }
        shown.finish()
    }
}

/// The text of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Drawn: one segment of its own.
    Drawn(Segment),
    /// As it was recorded.
    Recorded(Arc<[Segment]>),
}

impl Reply {
    /// What it is made of.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        match self {
            Reply::Drawn(segment) => std::slice::from_ref(segment),
            Reply::Recorded(segments) => segments,
        }
    }
}

/// One conversation or tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it was drawn from.
    pub key: ProgramKey,
    /// What hashing policies hash: the same for all requests of the program.
    pub session: u64,
    /// Who is billed and kept apart; 0 where nobody is.
    pub tenant: u64,
    /// The objective for each of its first tokens; None without one.
    pub slo: Option<Duration>,
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
                think: Duration::ZERO,
                reply: None,
            })
            .collect();
        Program::new(key, nodes)
    }

    /// A program of `nodes`, in a session of its own, without tenant or objective.
    #[must_use]
    pub fn new(key: ProgramKey, nodes: Vec<Node>) -> Program {
        Program { key, session: key.id(), tenant: 0, slo: None, nodes }
    }

    /// What the reply to `node` is made of, whoever gives it: engines under test answer alike.
    #[must_use]
    pub fn reply(&self, node: usize) -> Reply {
        let at = &self.nodes[node];
        if let Some(recorded) = &at.reply {
            return Reply::Recorded(recorded.clone());
        }
        let id = mix(mix(self.key.id(), 0x0052_4550_4C59), node as u64);
        let bytes = at.max_tokens * crate::BYTES_PER_TOKEN;
        Reply::Drawn(Segment { role: Role::Assistant, id, bytes })
    }
}
