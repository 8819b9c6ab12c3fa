//! Programs: trees of requests, each prompt the path from the root.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use meridian_base::mix;

use crate::ProgramKey;

/// The speaker of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The system prompt.
    System,
    /// The client.
    User,
    /// The model, in an earlier turn.
    Assistant,
}

/// A piece of a prompt whose text follows from `id`: equal ids start with equal text, whatever
/// their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The speaker.
    pub role: Role,
    /// The seed of the text.
    pub id: u64,
    /// Length of the text in bytes (ASCII).
    pub bytes: u32,
}

/// One request of a program.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    /// The node whose prompt and reply this prompt starts with; `None` at a root. Always an earlier
    /// node of the list.
    pub parent: Option<usize>,
    /// Distance from the root.
    pub level: u32,
    /// The segments that this node adds to the prompt.
    pub adds: Vec<Segment>,
    /// Tokens of the reply; a simulated engine answers with exactly that many.
    pub max_tokens: u32,
    /// The client's think time before it sends this, once the requests above it have ended.
    pub think: Duration,
    /// The text of the reply, if a trace knows it; otherwise it follows from the program.
    pub reply: Option<Arc<[Segment]>>,
}

impl fmt::Debug for Node {
    /// Omits a reply that follows from the program, as in the programs of all generators.
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
    /// Drawn: a single separate segment.
    Drawn(Segment),
    /// As it was recorded.
    Recorded(Arc<[Segment]>),
}

impl Reply {
    /// Its segments.
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
    /// The key it was drawn from.
    pub key: ProgramKey,
    /// The key for hashing policies: the same for all requests of the program.
    pub session: u64,
    /// The tenant, for billing and isolation; 0 for none.
    pub tenant: u64,
    /// The TTFT objective of each of its requests; `None` without one.
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

    /// A program of `nodes`, in a separate session, without tenant or objective.
    #[must_use]
    pub fn new(key: ProgramKey, nodes: Vec<Node>) -> Program {
        Program { key, session: key.id(), tenant: 0, slo: None, nodes }
    }

    /// The segments of the reply to `node`, whichever engine gives it: engines under test answer
    /// the same.
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
