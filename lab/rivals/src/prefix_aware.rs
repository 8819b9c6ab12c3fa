//! llm-cache-router: the longest prefix match, spilled off saturated replicas.
//!
//! `internal/router/prefixaware.go` of zxuhan/llm-router. Prompts are cut into 32-byte chunks,
//! 8,192 of them kept a replica, inserted before dispatch. Candidates are ordered by match, then by
//! outstanding requests, then by chance; chance matters, since on a session's first turn a shared
//! system prompt matches everywhere. The safety valve skips replicas with 8 or more outstanding (4
//! in its cloud runs) as long as another match of two chunks is left. With a shorter match, or no
//! unsaturated match, the request goes to the least loaded.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{
    Param, Pick, Policy, PolicyEvent, Spec, TOTAL_BLOCKS, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Evict, IndexSpec, Insert, Why};

use crate::saturation::Saturation;

/// The published bound, and the starting value of `auto`.
const SATURATION: f64 = 8.0;

pub(crate) static SPEC: Spec = Spec {
    name: "prefix_aware",
    summary: "longest prefix match, spilled off saturated replicas",
    source: "llm-cache-router, internal/router/prefixaware.go",
    params: &[
        Param::number("chunk_bytes", 32.0, (8.0, 65536.0), "bytes of a chunk"),
        Param::number("chunks", 8192.0, (1.0, 4_194_304.0), "chunks remembered of a replica"),
        Param::number("min_match", 2.0, (1.0, 65536.0), "fewest matched chunks worth following"),
        Param::number_or(
            "saturation",
            SATURATION,
            (1.0, 65536.0),
            &["auto", "off"],
            "outstanding requests at which a replica is passed over; auto: from observed p95",
        ),
    ],
    admission: Admission::Blind,
    index: |p| {
        Some(IndexSpec {
            block_bytes: p.count("chunk_bytes") as usize,
            per_target_blocks: Some(p.count("chunks") as usize),
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::OnDispatch,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(PrefixAware {
            min_match: p.count("min_match"),
            saturation: Saturation::of(p, "saturation", SATURATION as u32),
        })
    },
};

struct PrefixAware {
    min_match: u32,
    saturation: Saturation,
}

impl Policy for PrefixAware {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let (mut best, mut open) = (Least::new(), Least::new());
        for &r in view.eligible {
            let blocks = view.matched[r.index()];
            if blocks < self.min_match {
                continue;
            }
            let load = view.replicas.row(r).outstanding;
            let key = (Reverse(blocks), load);
            best.offer(key, r, draw);
            if self.saturation.bound(r).is_none_or(|bound| load < bound) {
                open.offer(key, r, draw);
            }
        }
        let Some(((best_match, best_load), best)) = best.get() else {
            return Pick::unscored(choose::least_outstanding(view, draw).1, Why::NoMatch);
        };
        match open.get() {
            // Tied with the best in match and load: the draw was among the best.
            Some((key, r)) if key == (best_match, best_load) => {
                Pick::unscored(r, choose::longest(view, r))
            }
            Some((_, r)) => Pick::unscored(r, spilled(view, r, best)),
            None => {
                let (_, r) = choose::least_outstanding(view, draw);
                Pick::unscored(r, spilled(view, r, best))
            }
        }
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        let mut terms = choose::match_and_load(c);
        if let Some(bound) = self.saturation.bound(c.replica) {
            terms.push(("saturated_at", f64::from(bound)));
        }
        terms
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::FirstToken { replica, ttft_ms } => {
                self.saturation.first_token(replica, ttft_ms as f32);
            }
            PolicyEvent::Replicas(replicas) => self.saturation.keep(replicas.ids()),
            _ => {}
        }
    }
}

fn spilled(view: &View<'_>, to: ReplicaId, best: ReplicaId) -> Why {
    Why::Spilled { tokens: view.matched_tokens(to) as u32, best: view.matched_tokens(best) as u32 }
}
