//! Chat with the lengths of real chats.
//!
//! Turns have mean 2.35 and 90th, 95th, 99th percentile 5, 7, 13. A prompt is lognormal with median
//! 40 and 90th percentile 320 tokens, a reply with 511 and 1,058 (derived from WildChat, ODC-BY
//! 1.0). A lognormal is fixed by two quantiles; the means that follow (149 and 600 tokens) lie near
//! the measured 166 and 587, and the prompt's real tail is longer still.
//!
//! Sessions share only an optional system prompt here; `region_chat.rs` has templates within and
//! across users.

use meridian_base::Rng;

use crate::lengths::Lengths;
use crate::spec::{GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Program, ProgramKey, Role, Segment};

/// The generator of plain chat, for single machines.
pub(crate) static SPEC: GeneratorSpec = GeneratorSpec {
    name: "chat",
    summary: "Chat without users: every conversation in a session of its own.",
    source: "turns and lengths of WildChat",
    load: PublishedLoad::Any,
    params: &[
        knob("system_bytes", 0.0, (0.0, 1e6), "bytes of a system prompt that all chats share"),
        knob("max_prompt_tokens", 4096.0, (1.0, 1e6), "most tokens a prompt adds in one turn"),
        knob("max_tokens", 2048.0, (1.0, 1e6), "most tokens of a reply"),
    ],
    make: |params| {
        Box::new(Chat {
            system_bytes: params.count("system_bytes"),
            max_prompt_tokens: params.count("max_prompt_tokens"),
            max_tokens: params.count("max_tokens"),
        })
    },
};

/// The share of sessions longer than 0, 1, 2, ... turns. Solved by hand for the published mean and
/// percentiles: a geometric tail with the right mean is too short at the 99th.
const LONGER_THAN: [f64; 20] = [
    1.0, 0.46, 0.27, 0.174, 0.112, 0.082, 0.060, 0.046, 0.036, 0.029, 0.023, 0.018, 0.0135, 0.009,
    0.006, 0.004, 0.003, 0.002, 0.0015, 0.001,
];

/// The mean of those turns.
pub(crate) const MEAN_TURNS: f64 = 2.35;

/// Default of the most tokens that a prompt adds in one turn.
pub(crate) const MAX_PROMPT: u32 = 4096;

/// Generates chats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// Bytes of a system prompt that all chats share; 0 for none.
    pub system_bytes: u32,
    /// Most tokens a prompt adds in one turn.
    pub max_prompt_tokens: u32,
    /// Most tokens of a reply: longer draws are cut to it.
    pub max_tokens: u32,
}

impl Default for Chat {
    fn default() -> Chat {
        Chat { system_bytes: 0, max_prompt_tokens: MAX_PROMPT, max_tokens: 2048 }
    }
}

impl Generator for Chat {
    fn program(&self, key: ProgramKey) -> Program {
        let turns = (0..turns(&mut key.rng(u64::MAX)))
            .map(|at| {
                let (prompt, reply) = turn(key, at, self.max_prompt_tokens, self.max_tokens);
                let mut adds = vec![prompt];
                if at == 0 && self.system_bytes > 0 {
                    let (id, bytes) = (key.shared(1), self.system_bytes);
                    adds.insert(0, Segment { role: Role::System, id, bytes });
                }
                (adds, reply)
            })
            .collect();
        Program::path(key, turns)
    }

    fn mean_requests(&self) -> f64 {
        MEAN_TURNS
    }
}

/// Draws the number of turns of a chat.
pub(crate) fn turns(rng: &mut Rng) -> u64 {
    let u = rng.unit();
    LONGER_THAN.iter().take_while(|&&share| u < share).count().max(1) as u64
}

/// The prompt and the tokens of reply of one turn of `key`.
pub(crate) fn turn(key: ProgramKey, turn: u64, prompt: u32, reply: u32) -> (Segment, u32) {
    let mut rng = key.rng(turn);
    let id = rng.next_u64();
    let bytes = Lengths::by_quantiles(40.0, 320.0, prompt).draw(&mut rng) * BYTES_PER_TOKEN;
    let reply = Lengths::by_quantiles(511.0, 1058.0, reply).draw(&mut rng);
    (Segment { role: Role::User, id, bytes }, reply)
}
