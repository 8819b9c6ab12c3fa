//! Stub until the index lands.
use alloc::vec::Vec;
use meridian_base::Duration;
/// Order of eviction within a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Least recently used first.
    LeastRecent,
    /// Earliest inserted first.
    EarliestInserted,
}
/// When the machine inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// At dispatch.
    OnDispatch,
    /// After the answer.
    OnAnswer,
    /// Both: siblings match what is being prefilled, and the reply is added.
    Both,
}
/// The index a policy wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexSpec {
    /// Bytes a block.
    pub block_bytes: usize,
    /// Cap per target in blocks; `None`: the replica's KV size.
    pub per_target_blocks: Option<usize>,
    /// Cap in all, in blocks times targets.
    pub total_blocks: usize,
    /// Eviction order.
    pub evict: Evict,
    /// When to insert.
    pub insert: Insert,
    /// Entries older than this do not match.
    pub ttl: Option<Duration>,
}
/// The index.
#[derive(Debug)]
pub struct PrefixIndex(Vec<u64>);
impl PrefixIndex {
    /// New.
    #[must_use]
    pub fn new(_total: usize, _targets: usize, _evict: Evict) -> Self {
        PrefixIndex(Vec::new())
    }
    /// Cap.
    pub fn set_cap(&mut self, _t: u16, _b: usize) {}
    /// Insert.
    pub fn insert(&mut self, _t: u16, _b: &[u64]) {}
    /// Matches.
    pub fn matches(&self, _b: &[u64], depth: &mut [u32]) {
        depth.fill(0)
    }
    /// Truncate.
    pub fn truncate(&mut self, _t: u16, _b: &[u64], _keep: u32) {}
    /// Remove.
    pub fn remove_target(&mut self, _t: u16) {}
    /// Held.
    #[must_use]
    pub fn held_by(&self, _t: u16) -> usize {
        0
    }
    /// Len.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
