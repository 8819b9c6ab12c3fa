//! Chat with the lengths of people's real chats.
//!
//! Turns have mean 2.35 and 90th, 95th, 99th percentile 5, 7, 13. A prompt is lognormal with median
//! 40 and 90th percentile 320 tokens, a reply with 511 and 1,058 (derived from WildChat,
//! ODC-BY 1.0). A lognormal is fixed by two quantiles; the means that follow (149 and 600
//! tokens) lie near the measured 166 and 587, and the prompt's real tail is longer still.
//!
//! Nothing is shared between sessions here but an optional system prompt: templates within and
//! across users belong to a generator of their own.

use meridian_base::Rng;

use crate::{BYTES_PER_TOKEN, Generator, Program, ProgramKey, Role, Segment};

/// The 90th percentile of a standard normal.
const Z90: f64 = 1.281_551_565_544_6;

/// The share of sessions longer than 0, 1, 2, ... turns. Solved by hand for the published mean and
/// percentiles: a geometric tail that fits the mean is too short at the 99th.
const LONGER_THAN: [f64; 20] = [
    1.0, 0.46, 0.27, 0.174, 0.112, 0.082, 0.060, 0.046, 0.036, 0.029, 0.023, 0.018, 0.0135, 0.009,
    0.006, 0.004, 0.003, 0.002, 0.0015, 0.001,
];

/// Makes chats.
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
        Chat { system_bytes: 0, max_prompt_tokens: 4096, max_tokens: 2048 }
    }
}

impl Generator for Chat {
    fn program(&self, key: ProgramKey) -> Program {
        let turns = turns(&mut key.rng(u64::MAX));
        let turns = (0..turns)
            .map(|turn| {
                let mut rng = key.rng(turn);
                let id = rng.next_u64();
                let prompt = by_quantiles(&mut rng, 40.0, 320.0, self.max_prompt_tokens);
                let reply = by_quantiles(&mut rng, 511.0, 1058.0, self.max_tokens);
                let bytes = prompt * BYTES_PER_TOKEN;
                let mut adds = vec![Segment { role: Role::User, id, bytes }];
                if turn == 0 && self.system_bytes > 0 {
                    let (id, bytes) = (key.shared(1), self.system_bytes);
                    adds.insert(0, Segment { role: Role::System, id, bytes });
                }
                (adds, reply)
            })
            .collect();
        Program::path(key, turns)
    }

    fn mean_requests(&self) -> f64 {
        LONGER_THAN.iter().sum()
    }
}

fn turns(rng: &mut Rng) -> u64 {
    let u = rng.unit();
    LONGER_THAN.iter().take_while(|&&share| u < share).count().max(1) as u64
}

/// A lognormal draw in whole tokens, fixed by its median and 90th percentile, from 1 to `most`.
fn by_quantiles(rng: &mut Rng, p50: f64, p90: f64, most: u32) -> u32 {
    let sigma = libm::log(p90 / p50) / Z90;
    let tokens = libm::round(libm::exp(libm::log(p50) + sigma * rng.normal()));
    (tokens as u32).clamp(1, most.max(1))
}
