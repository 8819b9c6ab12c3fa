//! Sessions with a shared system prompt and several turns.
//!
//! The shape of llm-cache-router's benchmark: N sessions at a time (as many closed-loop clients),
//! T turns each, one system prompt of S bytes for all of them, replies of at most 64 tokens. Every
//! session's prefix starts alike and then grows apart, so a router gains by bringing a session
//! back to where its last turn ran.

use crate::{Generator, Program, ProgramKey, Role, Segment};

/// Makes sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sessions {
    /// Turns a session has.
    pub turns: u32,
    /// Bytes of the system prompt that all sessions share; 0 for none.
    pub system_bytes: u32,
    /// Bytes of each question.
    pub question_bytes: u32,
    /// Tokens of reply asked for.
    pub max_tokens: u32,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { turns: 8, system_bytes: 6 * 1024, question_bytes: 160, max_tokens: 64 }
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
