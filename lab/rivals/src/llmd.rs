//! llm-d's approximate prefix index, for the rules of its router that read it.
//!
//! `approx-prefix-cache-producer` of llm-d-router at ebab6879 (August 2026): a prompt is cut into
//! blocks of the size that the engines report, but of at least 64 tokens. A replica remembers as many
//! as its engine's cache has blocks, least recently used first out, and at most 131,072 tokens of a
//! prompt count. llm-d's guides run engines with blocks of 64 tokens, so a replica remembers as much
//! as its KV cache holds; with vLLM's blocks of 16 it would remember four times as much.
//!
//! Deliberately otherwise: llm-d takes 31,250 blocks if an engine reports no cache. Its last block may
//! be shorter, and matches only a prompt that ends there too; ours are whole, and so are the blocks of
//! a prompt whose share is asked for.

use meridian_base::ReplicaId;
use meridian_routing::IndexSpec;
use meridian_routing::policy::{Param, Params, View};

use crate::kv_index::KV_INDEX;

/// Tokens of a block.
const BLOCK_TOKENS: f32 = 64.0;
/// Bytes of a block: a token is four.
const BLOCK_BYTES: usize = 256;

pub(crate) const LRU_BLOCKS: Param = Param::word_or(
    "lru_blocks",
    &["kv"],
    (1.0, 4_194_304.0),
    "256-byte blocks remembered of a replica; kv: as many as its KV cache holds",
);

pub(crate) const MAX_PREFIX_TOKENS: Param = Param::number(
    "max_prefix_tokens",
    131_072.0,
    (64.0, 16_777_216.0),
    "tokens of a prompt that the prefix match looks at",
);

/// The index of a policy that has [`LRU_BLOCKS`].
pub(crate) fn index(p: &Params) -> Option<IndexSpec> {
    let per_target_blocks = p.number("lru_blocks").map(|blocks| blocks as usize);
    Some(IndexSpec { block_bytes: BLOCK_BYTES, per_target_blocks, ..KV_INDEX })
}

/// Matches and prompts in tokens of whole blocks, up to the limit.
pub(crate) struct Blocks {
    cap: f32,
}

impl Blocks {
    /// By the parameter [`MAX_PREFIX_TOKENS`].
    pub(crate) fn of(p: &Params) -> Blocks {
        Blocks { cap: p.f32("max_prefix_tokens") }
    }

    /// The share of the prompt's blocks that `replica` has, 0 to 1.
    pub(crate) fn share(&self, view: &View<'_>, replica: ReplicaId) -> f32 {
        self.cap(view.matched_tokens(replica)) / self.tokens(view.request.prompt_tokens)
    }

    /// The matched tokens that count.
    #[inline]
    pub(crate) fn cap(&self, matched: f32) -> f32 {
        matched.min(self.cap)
    }

    /// Tokens of the prompt's whole blocks that count, at least one. The index has whole blocks only, so a
    /// prompt that was sent before is matched in full.
    #[inline]
    pub(crate) fn tokens(&self, prompt: u32) -> f32 {
        let blocks = libm::floorf((prompt as f32).min(self.cap) / BLOCK_TOKENS);
        blocks.max(1.0) * BLOCK_TOKENS
    }
}
