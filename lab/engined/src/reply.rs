//! The text of a reply: one word of three letters and a space per token, from a seed.
//!
//! Four bytes per token, so that an estimate of bytes divided by four is exact, and plain letters,
//! so that JSON needs no escapes.

use meridian_base::mix;

/// Bytes of one token's text.
pub(crate) const TOKEN_BYTES: usize = 4;

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";

/// A reply, known before it is generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    seed: u64,
    /// Tokens that were already given.
    given: u32,
}

impl Reply {
    /// The reply to the prompt with this fingerprint.
    pub(crate) fn new(seed: u64, prompt: u64) -> Reply {
        Reply { seed: mix(seed, prompt), given: 0 }
    }

    /// The rest of it after `given` tokens.
    pub(crate) fn after(self, given: u32) -> Reply {
        Reply { given, ..self }
    }

    /// The length at which it ends without a limit: mean 220 tokens, coefficient of variation 0.8,
    /// similar to chat traces.
    pub(crate) fn natural_tokens(&self) -> u32 {
        let mut rng = meridian_base::Rng::new(self.seed);
        let whole = rng.lognormal(220.0, 0.8).clamp(1.0, 4096.0) as u32;
        whole.saturating_sub(self.given).max(1)
    }

    /// Appends the text of the tokens from `from` up to, not including, `until`.
    pub(crate) fn write(&self, from: u32, until: u32, text: &mut String) {
        for token in self.given.saturating_add(from)..self.given.saturating_add(until) {
            let draw = mix(self.seed, u64::from(token)) as usize;
            text.push(char::from(CONSONANTS[draw & 15]));
            text.push(char::from(VOWELS[(draw >> 4) & 3]));
            text.push(char::from(CONSONANTS[(draw >> 6) & 15]));
            text.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // However a reply is cut into pieces, it is the same text, of four bytes per token.
    #[test]
    fn pieces_leave_no_trace() {
        let reply = Reply::new(1, 2);
        let (mut whole, mut pieces) = (String::new(), String::new());
        reply.write(0, 50, &mut whole);
        for at in 0..10 {
            reply.write(at * 5, at * 5 + 5, &mut pieces);
        }
        assert_eq!(whole, pieces);
        assert_eq!(whole.len(), 50 * TOKEN_BYTES);
        assert_eq!(whole.split_whitespace().count(), 50);
    }

    // The reply depends on both seed and prompt.
    #[test]
    fn replies_differ_by_seed_and_prompt() {
        let text = |seed, prompt| {
            let mut text = String::new();
            Reply::new(seed, prompt).write(0, 20, &mut text);
            text
        };
        assert_ne!(text(1, 2), text(1, 3));
        assert_ne!(text(1, 2), text(2, 2));
    }
}
