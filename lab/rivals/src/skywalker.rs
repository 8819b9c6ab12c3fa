//! SkyWalker: the longest prefix match among replicas with nothing pending, else explore.
//!
//! SkyWalker sections 3.2 and 3.3, Listing 1 line 21. The trie stores the prompts that this gateway
//! sent, at most 2^24 characters in all, and evicts the earliest inserted first. Only available
//! replicas are matched: a better match on a busy one does not make the request wait. A match of
//! less than half of the prompt is not worth a hot spot, and the least loaded gets it. Selective
//! pushing is the admission mode `pending`. Local replicas come first. If none is available, the
//! request goes to the available peer that was sent the longest prefix of the prompt (Listing 1,
//! line 28).

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Rng;
use meridian_routing::policy::{
    Forward, Param, Params, Pick, Policy, Spec, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Evict, IndexSpec, Insert, Why};

const BLOCK_BYTES: usize = 64;

pub(crate) static SPEC: Spec = Spec {
    name: "skywalker",
    summary: "longest prefix match among replicas with nothing pending; under half, least loaded",
    source: "SkyWalker sections 3.2-3.3, Listing 1",
    params: &[MATCH_RATIO, MAX_TREE_BYTES],
    admission: Admission::Pending,
    index: trie,
    head_bytes: |_| 0,
    build: |p| Box::new(Skywalker::of(p)),
};

pub(crate) const MATCH_RATIO: Param = Param::number(
    "match_ratio",
    0.5,
    (0.0, 1.0),
    "share of the prompt that must match for the match to be followed",
);

pub(crate) const MAX_TREE_BYTES: Param = Param::number(
    "max_tree_bytes",
    16_777_216.0,
    (65536.0, 4_294_967_296.0),
    "bytes of prompts that the trie holds in all",
);

/// The trie of replicas, and that of peers.
pub(crate) fn trie(p: &Params) -> Option<IndexSpec> {
    let blocks = p.count("max_tree_bytes") as usize / BLOCK_BYTES;
    Some(IndexSpec {
        block_bytes: BLOCK_BYTES,
        per_target_blocks: Some(blocks),
        total_blocks: blocks,
        evict: Evict::EarliestInserted,
        insert: Insert::OnDispatch,
        ttl: None,
    })
}

pub(crate) struct Skywalker {
    match_ratio: f32,
}

impl Skywalker {
    pub(crate) fn of(p: &Params) -> Skywalker {
        Skywalker { match_ratio: p.f32("match_ratio") }
    }
}

impl Policy for Skywalker {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut best = Least::new();
        for &r in view.eligible {
            best.offer(core::cmp::Reverse(view.matched[r.index()]), r, draw);
        }
        let (_, replica) = best.get().expect("a view has at least one candidate");
        if view.matched[replica.index()] > 0 && view.match_ratio(replica) >= self.match_ratio {
            return Pick::unscored(replica, choose::longest(view, replica));
        }
        Pick::unscored(choose::least_outstanding(view, draw).1, Why::NoMatch)
    }

    fn forward(&self, view: &View<'_>, _local: Option<&Pick>, draw: &mut Rng) -> Option<Forward> {
        choose::best_matched(view, draw)
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        choose::match_and_load(c)
    }
}
