//! A prompt as the engine sees it: a number of tokens, and the hashes of its blocks.
//!
//! The canonical text imitates a chat template: role, newline, content, newline for each message,
//! and at the end the role of the reply. With a reply appended it is a prefix of the next turn's
//! canonical text, as with a real template, so a follow-up hits the blocks of both. Four bytes are
//! a token and 64 bytes a block of 16.

use crate::reply::{Reply, TOKEN_BYTES};
use meridian_base::{Fingerprinter, keyed, mix};
use meridian_engine::{BLOCK_TOKENS, blocks_for};

const BLOCK_BYTES: usize = BLOCK_TOKENS as usize * TOKEN_BYTES;

/// A prompt under construction, then its fingerprint.
#[derive(Debug)]
pub(crate) struct Prompt {
    fingerprint: Fingerprinter,
    /// Digest of all bytes, including the last incomplete block.
    digest: u64,
    /// Tokens of the reply that are already present.
    given: u32,
}

impl Prompt {
    /// An empty prompt. Prompts with different salts or adapters share no blocks but get the same
    /// reply.
    pub(crate) fn new(salt: &str, adapter: Option<&str>) -> Prompt {
        let salt = keyed(0, salt.as_bytes());
        let scope = adapter.map_or(salt, |name| mix(salt, keyed(1, name.as_bytes())));
        let fingerprint = Fingerprinter::new(0, scope, BLOCK_BYTES);
        Prompt { fingerprint, digest: keyed(0, b""), given: 0 }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.fingerprint.push(bytes);
        self.digest = mix(self.digest, keyed(1, bytes));
    }

    /// Its length in tokens, at least 1.
    pub(crate) fn tokens(&self) -> u32 {
        let tokens = self.fingerprint.bytes() / TOKEN_BYTES as u64;
        u32::try_from(tokens).unwrap_or(u32::MAX).max(1)
    }

    /// Appends the beginning of a reply. As with greedy decoding, the continuation is the rest of
    /// the reply that the prompt alone would get.
    pub(crate) fn go_on(&mut self, text: &str) {
        self.fingerprint.push(text.as_bytes());
        self.given = (text.len() / TOKEN_BYTES) as u32;
    }

    /// The reply, determined by the engine's seed and the client's.
    pub(crate) fn reply(&self, seed: u64) -> Reply {
        Reply::new(seed, self.digest).after(self.given)
    }

    /// What each block of the prompt alone holds, as a hash of all bytes up to its end. The last one
    /// counts with its length if it is not full.
    pub(crate) fn contents(&self) -> Vec<u64> {
        let mut padded = self.fingerprint.clone();
        let (bytes, needed) = (padded.bytes(), blocks_for(self.tokens()) as usize);
        let end = bytes as usize % BLOCK_BYTES;
        padded.push(&[0xff; BLOCK_BYTES][end..]);
        let mut contents = padded.into_blocks();
        contents.truncate(needed);
        if needed > bytes as usize / BLOCK_BYTES
            && let Some(last) = contents.last_mut()
        {
            *last = mix(*last, bytes);
        }
        contents
    }

    /// The hashes of its blocks and of those that `tokens` tokens of `reply` will fill.
    pub(crate) fn blocks(mut self, reply: &Reply, tokens: u32) -> Vec<u64> {
        let mut text = String::with_capacity(tokens as usize * TOKEN_BYTES);
        reply.write(0, tokens, &mut text);
        self.fingerprint.push(text.as_bytes());
        self.fingerprint.into_blocks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A turn's prompt and reply are a prefix of the next turn's prompt.
    #[test]
    fn a_follow_up_begins_with_prompt_and_reply() {
        let mut first = Prompt::new("", None);
        first.push(&"question ".repeat(40));
        let mut second = Prompt::new("", None);
        second.push(&"question ".repeat(40));
        let reply = first.reply(7);
        let blocks = first.blocks(&reply, 64);
        let mut text = String::new();
        reply.write(0, 64, &mut text);
        second.push(&text);
        second.push("and then?");
        let next = second.blocks(&reply, 0);
        assert_eq!(blocks.len(), (360 + 256) / 64);
        assert_eq!(blocks[..], next[..blocks.len()]);
    }

    // A block's content follows every byte up to its end, and the salt. The last block counts even
    // if it is not full, and even without a whole token.
    #[test]
    fn contents_follow_the_prompt() {
        let of = |text: &str, salt: &str| {
            let mut prompt = Prompt::new(salt, None);
            prompt.push(text);
            prompt.contents()
        };
        let text = "x".repeat(200);
        assert_eq!(of(&text, "").len(), 4);
        assert_eq!(of(&text, ""), of(&text, ""));
        assert_ne!(of(&text, "")[0], of(&text, "salt")[0]);
        let longer = of(&format!("{text}yyyy"), "");
        assert_eq!(longer[..3], of(&text, "")[..3]);
        assert_ne!(longer[3], of(&text, "")[3]);
        assert_eq!(of("", "").len(), 1);
        assert_eq!(of(&"x".repeat(66), "").len(), 1);
        assert_eq!(of(&"x".repeat(64), ""), of(&"x".repeat(66), ""));
    }

    // A salt separates the caches of equal prompts, and the model's reply is the same.
    #[test]
    fn salts_separate() {
        let of = |salt| {
            let mut prompt = Prompt::new(salt, None);
            prompt.push(&"x".repeat(64));
            let (reply, mut text) = (prompt.reply(0), String::new());
            reply.write(0, 8, &mut text);
            (prompt.blocks(&reply, 0), text)
        };
        let (a, b) = (of("a"), of("b"));
        assert_ne!(a.0, b.0);
        assert_eq!(a.1, b.1);
    }
}
