//! Twenty requests: prompts of 3 to 600 words, completions and chats, streamed and not. Eight of
//! them share a beginning, so that engines find parts of them in their caches.

use super::ask::{Asked, CHAT, COMPLETION};
use crate::common::text;

/// Tokens of an answer.
const TOKENS: u32 = 16;
const WORDS: [usize; 10] = [3, 9, 25, 40, 80, 130, 200, 300, 450, 600];

pub(super) fn twenty() -> Vec<Asked> {
    (0..20).map(one).collect()
}

fn one(n: u32) -> Asked {
    let words = WORDS[n as usize / 2];
    let path = if n.is_multiple_of(2) { COMPLETION } else { CHAT };
    let is_streamed = n / 2 % 2 == 1;
    let shares = n / 4 % 2 == 1;
    let mut prompt = text(100 + u64::from(n), words);
    if shares {
        prompt = format!("{} {prompt}", text(1, 150));
    }
    Asked::new(path, &prompt, TOKENS, is_streamed)
}
