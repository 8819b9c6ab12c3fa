//! Sessions with a shared system prompt and several turns.
//!
//! The shape of llm-cache-router's benchmark: N sessions at a time (as many closed-loop clients), T
//! turns each, one system prompt of S bytes for all of them, replies of at most 64 tokens. All
//! sessions share the start of their prefix and then diverge, so a router gains by sending a
//! session back to the replica of its last turn.

use crate::spec::{GeneratorParam, GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{Generator, Program, ProgramKey, Role, Segment};

/// The generator of sessions with several turns.
pub(crate) static SESSIONS: GeneratorSpec = GeneratorSpec {
    name: "sessions",
    summary: "Sessions of equal turns behind one shared system prompt.",
    source: "llm-cache-router, cloud benchmark",
    load: PublishedLoad::Clients(&[24]),
    params: &params(8.0),
    make: |params| Box::new(Sessions::of(params)),
};

/// The generator of sessions with one turn.
pub(crate) static SINGLE: GeneratorSpec = GeneratorSpec {
    name: "single",
    summary: "Single questions behind one shared system prompt.",
    source: "llm-cache-router, the single-turn shape it names",
    load: PublishedLoad::Any,
    params: &params(1.0),
    make: |params| Box::new(Sessions::of(params)),
};

const fn params(turns: f64) -> [GeneratorParam; 4] {
    [
        knob("turns", turns, (1.0, 1000.0), "turns of a session"),
        knob("system_bytes", 6144.0, (0.0, 1e7), "bytes of the system prompt that all share"),
        knob("question_bytes", 160.0, (1.0, 1e7), "bytes of a question"),
        knob("max_tokens", 64.0, (1.0, 1e6), "tokens of a reply"),
    ]
}

/// Generates sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sessions {
    /// Turns a session has.
    pub turns: u32,
    /// Bytes of the system prompt that all sessions share; 0 for none.
    pub system_bytes: u32,
    /// Bytes of each question.
    pub question_bytes: u32,
    /// Tokens of each reply.
    pub max_tokens: u32,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { turns: 8, system_bytes: 6 * 1024, question_bytes: 160, max_tokens: 64 }
    }
}

impl Sessions {
    fn of(params: &GeneratorParams) -> Sessions {
        Sessions {
            turns: params.count("turns"),
            system_bytes: params.count("system_bytes"),
            question_bytes: params.count("question_bytes"),
            max_tokens: params.count("max_tokens"),
        }
    }
}

impl Generator for Sessions {
    fn program(&self, key: ProgramKey) -> Program {
        let system = Segment { role: Role::System, id: key.shared(0), bytes: self.system_bytes };
        let turns = (0..self.turns)
            .map(|turn| {
                let id = key.rng(u64::from(turn)).next_u64();
                let question = Segment { role: Role::User, id, bytes: self.question_bytes };
                let adds = match turn {
                    0 if self.system_bytes > 0 => vec![system, question],
                    _ => vec![question],
                };
                (adds, self.max_tokens)
            })
            .collect();
        Program::path(key, turns)
    }

    fn mean_requests(&self) -> f64 {
        f64::from(self.turns)
    }
}
