//! llm-d's blend with `no-hit-lru-scorer`: cold requests go round.
//!
//! `pkg/epp/framework/plugins/scheduling/scorer/nohitlru` of llm-d-router at ebab6879 (August 2026),
//! beside the three scorers of [`crate::llmd_blend`] and with its weight of 2, as llm-d's optimized
//! baseline had them until it became sticky (`test/perf/config/router-configs/optimized-baseline.yaml`).
//!
//! ```text
//! score = blend + 2 * turn                                                            most wins
//! turn  = 0.5 if the prompt is cached in part at any candidate,
//!         else 1 - rank / (candidates - 1)
//! ```
//!
//! Rank 0 is the candidate that never had a cold request, then come those whose last one is longest
//! ago. A prompt's new blocks so spread over replicas as evenly as requests do. Candidates that never
//! had one are ranked by id here.
//!
//! Deliberately otherwise: llm-d remembers of each request whether it was cold when it was decided.
//! Here a request counts as cold if the replica that it was sent to had none of it, even if another
//! candidate had a part.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{Param, Pick, Policy, PolicyEvent, Spec, View, choose::Least};
use meridian_routing::{Admission, CandidateRow, Decision};

use crate::llmd;
use crate::llmd_blend::{self, Blend};

/// What candidates score if a part of the prompt is cached.
const WARM: f32 = 0.5;

pub(crate) static SPEC: Spec = Spec {
    name: "no_hit_lru",
    summary: "llm-d's blend, and a turn for requests that no replica has cached",
    source: "llm-d-router at ebab6879 (August 2026), scheduling/scorer/nohitlru",
    params: &[
        llmd_blend::QUEUE_WEIGHT,
        llmd_blend::KV_WEIGHT,
        llmd_blend::PREFIX_WEIGHT,
        Param::number("turn_weight", 2.0, (0.0, 1000.0), "weight of a cold request's turn"),
        llmd::LRU_BLOCKS,
        llmd::MAX_PREFIX_TOKENS,
        llmd_blend::NON_CACHED_TOKENS,
    ],
    admission: Admission::Blind,
    index: llmd::index,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(NoHitLru { blend: Blend::of(p), weight: p.f32("turn_weight"), order: Vec::new() })
    },
};

struct NoHitLru {
    blend: Blend,
    weight: f32,
    /// Replicas that had cold requests, the one whose last is longest ago first.
    order: Vec<ReplicaId>,
}

impl Policy for NoHitLru {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let turns = self.turns(view);
        let mut best = Least::new();
        for ((r, score), turn) in self.blend.scores(view).zip(turns) {
            best.offer(Reverse(score + self.weight * turn), r, draw);
        }
        let (Reverse(score), replica) = best.get().expect("a view has at least one candidate");
        Pick::scored(replica, -f64::from(score))
    }

    fn splits(&self, view: &View<'_>, _: ReplicaId, to: ReplicaId) -> bool {
        self.blend.splits(view, to)
    }

    // Without the turn: it is known at the decision alone.
    fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&'static str, f64)> {
        self.blend.terms(c, of)
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Dispatched(sent)
                if sent.unmatched_tokens >= sent.request.prompt_tokens as f32 =>
            {
                self.order.retain(|r| *r != sent.replica);
                self.order.push(sent.replica);
            }
            PolicyEvent::Replicas(replicas) => {
                self.order.retain(|r| replicas.ids().binary_search(r).is_ok());
            }
            _ => {}
        }
    }
}

impl NoHitLru {
    /// The turns of the candidates.
    fn turns(&self, view: &View<'_>) -> Vec<f32> {
        let candidates = view.eligible;
        if candidates.iter().any(|r| view.matched[r.index()] > 0) {
            return vec![WARM; candidates.len()];
        }
        let mut places = vec![None; view.matched.len()];
        for (place, r) in self.order.iter().enumerate() {
            places[r.index()] = Some(place);
        }
        let fresh = candidates.iter().filter(|r| places[r.index()].is_none()).count();
        let mut next = 0..fresh;
        let last = candidates.len().saturating_sub(1).max(1) as f32;
        let turn = |r: &ReplicaId| {
            let rank = places[r.index()].map_or_else(|| next.next().unwrap_or(0), |at| fresh + at);
            (1.0 - rank as f32 / last).max(0.0)
        };
        candidates.iter().map(turn).collect()
    }
}
