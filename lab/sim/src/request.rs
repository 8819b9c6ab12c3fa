//! A request as its client sends it: sizes and fingerprints, the same for all systems under test.

use meridian_base::{Duration, Time};
use meridian_workload::{BYTES_PER_TOKEN, Segment, content_blocks};

use crate::granularity::Granularity;

/// Bytes of the blocks that engines cache.
const ENGINE_BLOCK_BYTES: u32 = meridian_engine::BLOCK_TOKENS * BYTES_PER_TOKEN;
/// Separates the texts of different models; one model has one scope.
const SCOPE: u64 = 0x4D4F_4445_4C00;

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) struct ClientRequest {
    pub(crate) load: u16,
    /// The client's.
    pub(crate) region: u16,
    /// Its program, and the node there.
    pub(crate) program: u32,
    pub(crate) node: u32,
    /// The name of its messages, equal for all systems under test.
    pub(crate) name: u64,
    pub(crate) session: u64,
    pub(crate) tenant: u64,
    pub(crate) slo: Option<Duration>,
    pub(crate) sent: Time,
    pub(crate) text: RequestText,
}

/// The text of a prompt and its reply, as far as gateways and engines need it.
#[derive(Clone, Debug)]
pub(crate) struct RequestText {
    pub(crate) prompt_tokens: u32,
    pub(crate) reply_tokens: u32,
    /// Whole blocks of 16 tokens, prompt and reply.
    pub(crate) blocks: Vec<u64>,
    /// The prompt's blocks in the policy's own granularity, if that differs.
    pub(crate) own_blocks: Option<Vec<u64>>,
    /// Hash of the prompt's first bytes; 0 if the policy needs none.
    pub(crate) head: u64,
}

impl RequestText {
    /// The text of a prompt, which becomes that of the prompt and its reply.
    pub(crate) fn of(
        text: &mut Vec<Segment>,
        reply: &[Segment],
        granularity: Granularity,
    ) -> RequestText {
        let prompt_bytes: u32 = text.iter().map(|s| s.bytes).sum();
        let own_blocks = (granularity.block_bytes != ENGINE_BLOCK_BYTES).then(|| {
            let mut own = Vec::new();
            content_blocks(text.iter().copied(), granularity.block_bytes, SCOPE, &mut own);
            own
        });
        let head = match granularity.head_bytes {
            0 => 0,
            bytes => head(text, bytes),
        };
        text.extend_from_slice(reply);
        let all_bytes: u32 = text.iter().map(|s| s.bytes).sum();
        assert!(all_bytes >= prompt_bytes, "a prompt and its reply have more than 4 GiB");
        let mut blocks = Vec::with_capacity((all_bytes / ENGINE_BLOCK_BYTES) as usize);
        content_blocks(text.iter().copied(), ENGINE_BLOCK_BYTES, SCOPE, &mut blocks);
        RequestText {
            prompt_tokens: prompt_bytes.div_ceil(BYTES_PER_TOKEN).max(1),
            reply_tokens: ((all_bytes - prompt_bytes) / BYTES_PER_TOKEN).max(1),
            blocks,
            own_blocks,
            head,
        }
    }

    /// The whole blocks of the prompt.
    pub(crate) fn prompt_blocks(&self) -> &[u64] {
        let whole = (self.prompt_tokens / meridian_engine::BLOCK_TOKENS) as usize;
        &self.blocks[..whole.min(self.blocks.len())]
    }
}

/// Hash of the first `bytes` of a prompt.
fn head(segments: &[Segment], bytes: u32) -> u64 {
    let total: u32 = segments.iter().map(|s| s.bytes).sum();
    let mut out = Vec::new();
    content_blocks(segments.iter().copied(), bytes.min(total).max(1), SCOPE, &mut out);
    out.first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use meridian_workload::Role;

    use super::*;

    fn text(prompt: u32, reply: u32, granularity: Granularity) -> RequestText {
        let segment = |id, bytes| Segment { role: Role::User, id, bytes };
        RequestText::of(&mut vec![segment(1, prompt)], &[segment(2, reply)], granularity)
    }

    // A text has whole blocks of prompt and reply; the prompt's own blocks only where a policy has
    // another granularity.
    #[test]
    fn blocks_and_tokens() {
        let usual = Granularity { block_bytes: ENGINE_BLOCK_BYTES, head_bytes: 0, follows: false };
        let same = text(ENGINE_BLOCK_BYTES * 2 + 1, ENGINE_BLOCK_BYTES, usual);
        assert_eq!((same.blocks.len(), same.prompt_blocks().len()), (3, 2));
        assert_eq!((same.prompt_tokens, same.reply_tokens), (33, 16));
        assert_eq!((same.own_blocks, same.head), (None, 0));
        let fine = Granularity { block_bytes: ENGINE_BLOCK_BYTES / 4, head_bytes: 8, ..usual };
        let other = text(ENGINE_BLOCK_BYTES * 2 + 1, ENGINE_BLOCK_BYTES, fine);
        assert_eq!(other.own_blocks.map(|own| own.len()), Some(8));
        assert_ne!(other.head, 0);
        assert_eq!(other.blocks, same.blocks);
    }

    // Nothing is shorter than a token.
    #[test]
    fn short_texts() {
        let usual = Granularity { block_bytes: ENGINE_BLOCK_BYTES, head_bytes: 0, follows: false };
        let short = text(1, 1, usual);
        assert_eq!((short.prompt_tokens, short.reply_tokens), (1, 1));
        assert!(short.blocks.is_empty());
    }
}
