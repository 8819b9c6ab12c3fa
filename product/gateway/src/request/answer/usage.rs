//! An engine's token counts, as the routing machine takes them.

use meridian_protocol::openai;
use meridian_routing::Usage;

/// The counts in the machine's width.
pub(crate) fn narrow(usage: openai::Usage) -> Usage {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Usage {
        prompt_tokens: narrow(usage.prompt_tokens),
        cached_tokens: usage.cached_tokens.map(narrow),
        completion_tokens: narrow(usage.completion_tokens),
        prefill_us: usage.prefill_us.map(narrow),
    }
}
