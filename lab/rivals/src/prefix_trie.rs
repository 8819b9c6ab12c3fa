//! The longest prefix match, whatever the load.
//!
//! GORGO's baseline PREFIXTRIE (section 4.4): it maximises overlap and ignores latency and
//! availability. It is included to show the cost of that: one warm replica draws every request that
//! shares a prefix with its first one. Prompts enter the trie when their answer succeeds, as in
//! GORGO's code (gotoni, `pkg/proxy/proxy.go`); if nothing matches, the choice is uniform.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::Rng;
use meridian_routing::policy::{
    Forward, Pick, Policy, Spec, TOTAL_BLOCKS, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Evict, IndexSpec, Insert, Why};

pub(crate) static SPEC: Spec = Spec {
    name: "prefix_trie",
    summary: "longest prefix match, blind to load",
    source: "GORGO section 4.4, baseline PREFIXTRIE",
    params: &[],
    admission: Admission::Blind,
    index: |_| {
        Some(IndexSpec {
            block_bytes: 64,
            per_target_blocks: Some(TOTAL_BLOCKS),
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::OnAnswer,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |_| Box::new(PrefixTrie),
};

struct PrefixTrie;

impl Policy for PrefixTrie {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut best = Least::new();
        for &r in view.eligible {
            best.offer(Reverse(view.matched[r.index()]), r, draw);
        }
        let (Reverse(blocks), replica) = best.get().expect("a view has at least one candidate");
        let why = if blocks == 0 { Why::NoMatch } else { choose::longest(view, replica) };
        Pick::unscored(replica, why)
    }

    fn forward(&self, view: &View<'_>, _local: Option<&Pick>, draw: &mut Rng) -> Option<Forward> {
        choose::best_matched(view, draw)
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![("matched_tokens", f64::from(c.matched_tokens))]
    }
}
