//! The index of rules that publish none: what was sent to a replica, as much as its KV cache holds.

use meridian_routing::policy::{Params, TOTAL_BLOCKS};
use meridian_routing::{Evict, IndexSpec, Insert};

/// Blocks of 64 bytes, least recently used first out.
pub(crate) const KV_INDEX: IndexSpec = IndexSpec {
    block_bytes: 64,
    per_target_blocks: None,
    total_blocks: TOTAL_BLOCKS,
    evict: Evict::LeastRecent,
    insert: Insert::OnDispatch,
    ttl: None,
};

/// The same, for a rule without parameters of the index.
pub(crate) fn index(_: &Params) -> Option<IndexSpec> {
    Some(KV_INDEX)
}
