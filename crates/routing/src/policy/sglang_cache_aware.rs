//! SGLang's router: follow the prefix while loads are even, else the shortest queue.
//!
//! `policies/cache_aware.rs` of sglang-router 0.3.2 (and its successor smg 1.13.0), with the
//! defaults of its command line (the library's differ: .5 / 32 / 1.1). When the most and least
//! loaded differ by more than 64 and by more than 1.5 times, the least loaded takes it.
//! Otherwise a match above 30 % of the prompt is followed, and a shorter one goes, by `miss`, to
//! the least loaded (2026 versions) or to the smallest tree (`smallest_tree`: up to 2025, and
//! vllm-project/router 0.1.17 still).
//!
//! Its trees hold characters; ours 64-byte blocks, so a match is up to 63 bytes short. Among
//! several replicas with the longest match it takes whichever its map yields first; here they are
//! drawn. A removed replica leaves the index at once; theirs stays until it is evicted.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{ReplicaId, Rng, Time};

use super::choose::{self, Least};
use super::{Param, Pick, Policy, Spec, TOTAL_BLOCKS, View};
use crate::admission::Admission;
use crate::explain::CandidateRow;
use crate::index::{Evict, IndexSpec, Insert};
use crate::replica::Replicas;
use crate::request::Request;
use crate::why::Why;

const BLOCK_BYTES: usize = 64;

pub(super) static SPEC: Spec = Spec {
    name: "sglang_cache_aware",
    summary: "prefix match above 30 % while loads are even, else the least loaded",
    source: "sglang-router 0.3.2, policies/cache_aware.rs, defaults of its CLI",
    params: &[
        Param::number(
            "cache_threshold",
            0.3,
            (0.0, 1.0),
            "share of the prompt that must be exceeded for the match to be followed",
        ),
        Param::number(
            "balance_abs_threshold",
            64.0,
            (0.0, 1e6),
            "difference of outstanding requests above which loads are uneven",
        ),
        Param::number(
            "balance_rel_threshold",
            1.5,
            (1.0, 1e6),
            "quotient of outstanding requests above which loads are uneven",
        ),
        Param::number(
            "max_tree_size",
            67_108_864.0,
            (65536.0, 268_435_456.0),
            "bytes of prompts remembered of a replica",
        ),
        Param::word(
            "miss",
            &["least_load", "smallest_tree"],
            "who takes a prompt that matches nowhere",
        ),
    ],
    admission: Admission::Blind,
    index: |p| {
        Some(IndexSpec {
            block_bytes: BLOCK_BYTES,
            per_target_blocks: Some(p.count("max_tree_size") as usize / BLOCK_BYTES),
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::OnDispatch,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(CacheAware {
            threshold: p.f32("cache_threshold"),
            abs: p.count("balance_abs_threshold"),
            rel: p.f32("balance_rel_threshold"),
            smallest_tree: p.is("miss", "smallest_tree"),
            processed: Vec::new(),
        })
    },
};

struct CacheAware {
    threshold: f32,
    abs: u32,
    rel: f32,
    smallest_tree: bool,
    /// Requests ever sent to each replica: breaks ties of load.
    processed: Vec<u64>,
}

impl Policy for CacheAware {
    fn pick(&mut self, view: &View<'_>, rng: &mut Rng) -> Pick {
        let (mut min, mut max) = (u32::MAX, 0);
        let mut longest = Least::new();
        for &r in view.eligible {
            let load = view.replicas.row(r).outstanding;
            (min, max) = (min.min(load), max.max(load));
            longest.offer(Reverse(view.matched[r.index()]), r, rng);
        }
        if max - min > self.abs && max as f32 > self.rel * min as f32 {
            return Pick::Replica(self.least_load(view), Why::Imbalance);
        }
        let (_, best) = longest.get().expect("a view has at least one candidate");
        if view.match_ratio(best) > self.threshold {
            return Pick::Replica(best, choose::longest(view, best));
        }
        match view.index.filter(|_| self.smallest_tree) {
            Some(index) => {
                let size = |r: &&ReplicaId| index.held_by(r.0);
                let smallest = view.eligible.iter().min_by_key(size);
                Pick::Replica(*smallest.unwrap_or(&view.eligible[0]), Why::NoMatch)
            }
            None => Pick::Replica(self.least_load(view), Why::NoMatch),
        }
    }

    fn terms(&self, c: &CandidateRow) -> Vec<(&'static str, f64)> {
        choose::match_and_load(c)
    }

    fn dispatched(&mut self, _now: Time, _request: &Request, replica: ReplicaId) {
        if self.processed.len() <= replica.index() {
            self.processed.resize(replica.index() + 1, 0);
        }
        self.processed[replica.index()] += 1;
    }

    fn replicas_changed(&mut self, replicas: &Replicas) {
        for (i, count) in self.processed.iter_mut().enumerate() {
            if replicas.ids().binary_search_by_key(&i, |r| r.index()).is_err() {
                *count = 0;
            }
        }
    }
}

impl CacheAware {
    /// The least (outstanding, ever sent, id).
    fn least_load(&self, view: &View<'_>) -> ReplicaId {
        let key = |r: &&ReplicaId| {
            let sent = self.processed.get(r.index()).copied().unwrap_or(0);
            (view.replicas.row(**r).outstanding, sent)
        };
        *view.eligible.iter().min_by_key(key).unwrap_or(&view.eligible[0])
    }
}
