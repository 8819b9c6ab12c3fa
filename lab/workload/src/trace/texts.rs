//! The segments of prompts and replies. Replies are inferred from the prompts that continue them.
//!
//! A trace names the blocks of prompts only. But the next turn of the conversation repeats the
//! reply: its prompt continues the earlier prompt with that reply. So a reply's text is taken from
//! the session's later request. An engine under test that returns it then has the next turn's
//! prefix cached, as the original engine had.
//!
//! Blocks are larger than most replies, and an earlier prompt usually ends inside a block. The
//! later prompt's block at that point is cut in two: the end of the earlier prompt, and the rest.
//! From then on the block is cut for all prompts.
//!
//! In Mooncake's trace the later prompt is as long as the earlier prompt and reply and some twenty
//! tokens more (median), which identifies it as a next turn; 11 % are up to a few hundred tokens
//! shorter, and their replies are taken as far as they reach. A reply that no request continues
//! gets separate text.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use meridian_base::mix;

use super::TraceRequest;
use crate::{BYTES_PER_TOKEN, Role, Segment};

/// Tags of text without a block id: the end of a prompt, the rest of a cut block, a reply.
const END: u64 = 0x45_4E44;
const REST: u64 = 0x5245_5354;
const REPLY: u64 = 0x5245_504C;

/// The segments of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub(crate) prompt: Vec<Segment>,
    /// `None` if no request continues it.
    pub(crate) reply: Option<Arc<[Segment]>>,
    /// The end of the prompt's whole blocks.
    pub(super) end: usize,
}

/// The texts of `requests`, which are ordered by time. Only requests of the same session continue
/// each other; `seed` separates the texts of two traces.
pub(crate) fn texts(requests: &[TraceRequest], seed: u64) -> Vec<Text> {
    let mut writer = Writer { requests, seed, ..Writer::default() };
    for at in 0..requests.len() {
        writer.write(at);
    }
    writer.texts
}

#[derive(Default)]
struct Writer<'a> {
    requests: &'a [TraceRequest],
    seed: u64,
    texts: Vec<Text>,
    /// The newest request of a session whose whole blocks end with this prefix.
    waiting: HashMap<(u64, u64), usize>,
    /// Every prefix seen so far.
    seen: HashSet<u64>,
    /// The request in whose end the block lies that ends this prefix, and which block of it.
    cuts: HashMap<u64, (usize, u32)>,
}

impl Writer<'_> {
    fn write(&mut self, at: usize) {
        let request = &self.requests[at];
        let chain: Vec<u64> = request.chain().collect();
        let before = self.carries_on_from(request, &chain);
        if let Some(before) = before {
            self.cut(before, &chain);
        }
        let text = self.text(at, &chain);
        if let Some(before) = before {
            let reply = self.reply(before, &text.prompt);
            self.texts[before].reply = Some(reply);
        }
        self.texts.push(text);
        if let Some(session) = request.session {
            self.waiting.insert((session, prefix(request, &chain, request.whole_blocks())), at);
        }
        self.seen.extend(chain);
    }

    /// The request whose reply `request` repeats: of its session, with all of its whole blocks, and
    /// with a block after them that no request sent before.
    fn carries_on_from(&mut self, request: &TraceRequest, chain: &[u64]) -> Option<usize> {
        let session = request.session?;
        let last = chain.len().checked_sub(1)?;
        (0..=last.min(request.whole_blocks())).rev().find_map(|blocks| {
            let key = (session, prefix(request, chain, blocks));
            let before = *self.waiting.get(&key)?;
            let earlier = &self.requests[before];
            let goes_on = earlier.input_tokens < request.input_tokens
                && earlier.output_tokens > 0
                && earlier.block_tokens == request.block_tokens
                && !self.seen.contains(&chain[blocks]);
            if goes_on { self.waiting.remove(&key) } else { None }
        })
    }

    /// Cuts the blocks of `chain` in which the prompt of `before` ends.
    fn cut(&mut self, before: usize, chain: &[u64]) {
        let earlier = &self.requests[before];
        let whole = earlier.whole_blocks();
        let end = earlier.input_tokens - whole as u32 * earlier.block_tokens;
        let blocks = end.div_ceil(earlier.block_tokens.max(1)).max(1);
        for (part, prefix) in (0..blocks).zip(&chain[whole..]) {
            self.cuts.insert(*prefix, (before, part));
        }
    }

    fn text(&self, at: usize, chain: &[u64]) -> Text {
        let request = &self.requests[at];
        let (mut left, mut text) = (request.input_tokens, Text::default());
        for (i, (id, prefix)) in request.hash_ids.iter().zip(chain).enumerate() {
            if i == request.whole_blocks() {
                text.end = text.prompt.len();
            }
            let tokens = left.min(request.block_tokens);
            left -= tokens;
            match self.cuts.get(prefix) {
                None => text.prompt.push(segment(mix(self.seed, *id), tokens)),
                Some(&(earlier, part)) => {
                    let before = &self.texts[earlier];
                    let rest = segment(mix(mix(self.seed, *prefix), REST), tokens);
                    // An end of several blocks has a segment for each.
                    let end = before.prompt[before.end + part as usize..].iter().copied();
                    text.prompt.extend(piece(end.chain([rest]), 0, tokens));
                }
            }
        }
        if request.hash_ids.len() <= request.whole_blocks() {
            text.end = text.prompt.len();
        }
        let unique = mix(mix(self.seed, at as u64), END);
        let end = request.end(left, unique).map(|end| match request.tail {
            Some(_) => Segment { id: mix(self.seed, end.id), ..end },
            None => end,
        });
        text.prompt.extend(end);
        text.prompt.retain(|segment| segment.bytes > 0);
        text
    }

    /// The reply to `before`, taken from a prompt that repeats it.
    fn reply(&self, before: usize, prompt: &[Segment]) -> Arc<[Segment]> {
        let TraceRequest { input_tokens, output_tokens, .. } = self.requests[before];
        let own = segment(mix(mix(self.seed, before as u64), REPLY), output_tokens);
        let reply = piece(prompt.iter().copied(), input_tokens, output_tokens);
        let known: u32 = reply.iter().map(|segment| segment.bytes / BYTES_PER_TOKEN).sum();
        let rest = piece([own], 0, output_tokens - known);
        reply.into_iter().chain(rest).map(|s| Segment { role: Role::Assistant, ..s }).collect()
    }
}

/// The hash of the first `blocks` blocks.
fn prefix(request: &TraceRequest, chain: &[u64], blocks: usize) -> u64 {
    blocks.checked_sub(1).and_then(|last| chain.get(last)).copied().unwrap_or_else(|| {
        // Only the size of a block is known for a prompt without ids or shorter than one.
        u64::from(request.block_tokens)
    })
}

fn segment(id: u64, tokens: u32) -> Segment {
    Segment { role: Role::User, id, bytes: tokens * BYTES_PER_TOKEN }
}

/// `tokens` tokens of a list of segments, from token `from` on. If no segment starts at `from`, the
/// piece starts with the next one.
fn piece(of: impl IntoIterator<Item = Segment>, from: u32, tokens: u32) -> Vec<Segment> {
    let (mut at, end) = (0, u64::from(from + tokens) * u64::from(BYTES_PER_TOKEN));
    let from = u64::from(from) * u64::from(BYTES_PER_TOKEN);
    let mut found = Vec::new();
    for segment in of {
        if at >= end {
            break;
        }
        if at >= from {
            let bytes = u64::from(segment.bytes).min(end - at) as u32;
            found.push(Segment { bytes, ..segment });
        }
        at += u64::from(segment.bytes);
    }
    found.retain(|segment| segment.bytes > 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Time;

    /// A request of `session` with a prompt of `tokens`, whose blocks of 8 are `ids`.
    fn request(session: u64, tokens: u32, reply: u32, ids: &[u64]) -> TraceRequest {
        TraceRequest {
            block_tokens: 8,
            hash_ids: ids.to_vec(),
            session: Some(session),
            ..TraceRequest::new(Time::ZERO, tokens, reply)
        }
    }

    /// Tokens that a prompt shares with an earlier prompt and its reply.
    fn shared(texts: &[Text], earlier: usize, later: usize) -> usize {
        let blocks = |segments: Vec<Segment>| {
            let mut out = Vec::new();
            crate::content_blocks(segments, BYTES_PER_TOKEN, 0, &mut out);
            out
        };
        let reply = texts[earlier].reply.iter().flat_map(|reply| reply.iter().copied());
        let earlier = blocks(texts[earlier].prompt.iter().copied().chain(reply).collect());
        let later = blocks(texts[later].prompt.clone());
        earlier.iter().zip(&later).take_while(|(a, b)| a == b).count()
    }

    // A prompt ends inside a block, and so do two next turns: each continues from the reply to the
    // previous one, to the token, and the last from everything before.
    #[test]
    fn next_turns_repeat_replies() {
        let turns = [
            request(1, 12, 3, &[1, 2]),
            request(1, 16, 10, &[1, 3]),
            request(1, 27, 4, &[1, 3, 4, 5]),
            request(1, 40, 9, &[1, 3, 4, 6, 7]),
        ];
        let texts = texts(&turns, 1);
        for (earlier, sum) in [15, 26, 31].into_iter().enumerate() {
            assert_eq!(shared(&texts, earlier, earlier + 1), sum);
            let reply = texts[earlier].reply.as_ref().expect("it is carried on");
            let tokens: u32 = reply.iter().map(|s| s.bytes / 4).sum();
            assert_eq!(tokens, turns[earlier].output_tokens);
        }
        assert_eq!((shared(&texts, 0, 3), shared(&texts, 1, 3)), (15, 26));
        assert!(texts[3].reply.is_none());
        for (text, turn) in texts.iter().zip(&turns) {
            let tokens: u32 = text.prompt.iter().map(|s| s.bytes / 4).sum();
            assert_eq!(tokens, turn.input_tokens);
        }
    }

    // If a trace omits the partial block, its text is still the same in both turns. A next turn
    // that is shorter than prompt and reply repeats as much of the reply as fits.
    #[test]
    fn ends_without_ids_and_short_turns() {
        let texts = texts(&[request(1, 12, 30, &[1]), request(1, 33, 1, &[1, 2, 3, 4])], 1);
        assert_eq!(shared(&texts, 0, 1), 33);
        let reply = texts[0].reply.as_ref().expect("it is carried on");
        assert_eq!(reply.iter().map(|s| s.bytes / 4).sum::<u32>(), 30);
    }

    // A prompt with fewer ids than blocks ends in text that its session shares, over several blocks:
    // a next turn continues from it although it has ids there.
    #[test]
    fn a_long_end() {
        let long = TraceRequest { tail: Some(77), ..request(1, 21, 6, &[1]) };
        let turns = [long.clone(), request(1, 33, 1, &[1, 2, 3, 4]), long];
        let texts = texts(&turns, 1);
        assert_eq!((shared(&texts, 0, 1), shared(&texts, 0, 2)), (27, 21));
        let reply = texts[0].reply.as_ref().expect("it is carried on");
        assert_eq!(reply.iter().map(|s| s.bytes / 4).sum::<u32>(), 6);
    }

    // A request does not continue another session, a prompt of the same length, an empty prompt, or
    // one whose following block was sent before the reply existed. The same prompt again shares all
    // of itself.
    #[test]
    fn others_share_what_their_ids_say() {
        let texts = texts(
            &[
                request(1, 20, 5, &[1, 2, 3]),
                request(2, 30, 5, &[1, 2, 4, 5]),
                request(1, 20, 5, &[1, 2, 3]),
                request(1, 30, 5, &[1, 2, 4, 5]),
                request(3, 20, 0, &[7, 8, 9]),
                request(3, 30, 5, &[7, 8, 10, 11]),
            ],
            1,
        );
        assert!(texts.iter().all(|text| text.reply.is_none()));
        assert_eq!(
            [(0, 1), (0, 2), (1, 3), (4, 5)].map(|(a, b)| shared(&texts, a, b)),
            [16, 20, 30, 16]
        );
    }
}
