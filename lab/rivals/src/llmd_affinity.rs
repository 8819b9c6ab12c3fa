//! llm-d's `prefix-cache-affinity-filter`: keep the replicas that have the prompt, unless they are slow.
//!
//! `pkg/epp/framework/plugins/scheduling/filter/prefixcacheaffinity` of llm-d-router at ebab6879
//! (August 2026). A candidate is sticky if it has at least `threshold` of the prompt's blocks. The
//! filter keeps the sticky ones. It keeps all candidates if none is sticky, or if the shortest TTFT of
//! a sticky one is more than `penalty_ms` above the shortest of the others. The rule that uses the
//! filter says what it takes for a TTFT.
//!
//! Not here: the chance of skipping the filter, which is 0 by default.

use alloc::vec::Vec;
use meridian_base::ReplicaId;
use meridian_routing::policy::View;

use crate::llmd::Blocks;

/// One gate.
pub(crate) struct Affinity {
    /// Share of the prompt's blocks, 0 to 1.
    pub(crate) threshold: f32,
    /// 0: sticky ones are never too slow.
    pub(crate) penalty_ms: f32,
}

impl Affinity {
    /// Removes from `candidates` the replicas that the filter drops.
    pub(crate) fn narrow(
        &self,
        candidates: &mut Vec<ReplicaId>,
        view: &View<'_>,
        blocks: &Blocks,
        ttft_ms: impl Fn(ReplicaId) -> f32,
    ) {
        let is_sticky = |r: ReplicaId| blocks.share(view, r) >= self.threshold;
        let (mut sticky, mut other) = (None, None);
        for &r in candidates.iter() {
            let best = if is_sticky(r) { &mut sticky } else { &mut other };
            *best = Some(best.map_or(ttft_ms(r), |least: f32| least.min(ttft_ms(r))));
        }
        let Some(sticky) = sticky else { return };
        let is_slow = |other: f32| self.penalty_ms > 0.0 && sticky - other > self.penalty_ms;
        if !other.is_some_and(is_slow) {
            candidates.retain(|r| is_sticky(*r));
        }
    }
}
