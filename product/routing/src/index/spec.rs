//! The index that a policy requires (sizes, eviction order, time of insertion), and the form in
//! which one index sends chains to another.

use meridian_base::Duration;

/// Which of a target's leaves is evicted first when it holds too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// The one least recently used, as the engines' own prefix caches do.
    LeastRecent,
    /// The one inserted earliest, however often it has been used since (SkyWalker, section 3.2).
    EarliestInserted,
}

/// When the machine inserts a request's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// At the dispatch: the prompt alone.
    OnDispatch,
    /// After the answer: the prompt and the reply.
    OnAnswer,
    /// At both: sibling requests match the prompt being prefilled now, and the reply is added
    /// later.
    Both,
}

/// The index that a policy requires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexSpec {
    /// Bytes of the prompt in a block.
    pub block_bytes: usize,
    /// Blocks a target may hold; `None` for the replica's KV size.
    pub per_target_blocks: Option<usize>,
    /// Blocks times targets that the whole index may hold.
    pub total_blocks: usize,
    /// Order of eviction within a target.
    pub evict: Evict,
    /// When chains are inserted.
    pub insert: Insert,
    /// Entries unused for this long are removed; `None` for eviction by order only.
    pub ttl: Option<Duration>,
}
