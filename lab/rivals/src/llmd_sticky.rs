//! llm-d's guides since August 2026: sticky until saturated.
//!
//! llm-d-router at ebab6879 with the plugins of llm-d's optimized baseline, all with their defaults:
//! `prefix-cache-affinity-filter` ([`crate::llmd_affinity`]), then `token-load-scorer`
//! (`pkg/epp/framework/plugins/scheduling/scorer/tokenload`).
//!
//! ```text
//! TTFT  = tokens in flight * ms per token                        keep those with 0.80 of the prompt,
//!                                                                unless 18 s slower than the others
//! score = 1 - min(tokens in flight + own uncached, 4,194,304) / 4,194,304             most wins
//! ```
//!
//! Tokens in flight are those of dispatches without a first token, less what was cached, as
//! `inflight-load-producer` counts them. Most tokens left is least tokens taken, so the load itself is
//! minimised here. Ties are drawn.
//!
//! llm-d's owner measures one prefill speed for all replicas, with a single chunk of 8,192 tokens on
//! an unloaded engine (15,928 tokens a second for Qwen3-32B on two H100). Here it is the prefill time
//! that the machine has learned of each replica, or `ms_per_token`.
//!
//! In front of pools it picks the decode replica with the fewest requests (`active-request-scorer`),
//! and every request that can be split is (`always-disagg-pd-decider`), as in its guide for them.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::Rng;
use meridian_routing::policy::{
    Param, Pick, Policy, Spec, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Row, Why};

use crate::llmd;
use crate::llmd_affinity::Affinity;

pub(crate) static SPEC: Spec = Spec {
    name: "llmd_sticky",
    summary: "least tokens in flight among replicas that have most of the prompt, until they are slow",
    source: "llm-d-router at ebab6879 (August 2026), plugins of llm-d's optimized baseline",
    params: &[
        Param::number(
            "affinity_threshold",
            0.8,
            (0.0, 1.0),
            "share of the prompt's blocks that a sticky replica has",
        ),
        Param::number(
            "max_ttft_penalty_ms",
            18_000.0,
            (0.0, 1e7),
            "ms of TTFT by which sticky replicas may be slower than the others; 0: any",
        ),
        Param::word_or(
            "ms_per_token",
            &["calibrated"],
            (1e-6, 1000.0),
            "prefill time in ms a token; calibrated: what was learned of each replica",
        ),
        Param::number(
            "queue_threshold_tokens",
            4_194_304.0,
            (1.0, 1e9),
            "tokens in flight above which loads count as equal",
        ),
        llmd::LRU_BLOCKS,
        llmd::MAX_PREFIX_TOKENS,
    ],
    admission: Admission::Blind,
    index: llmd::index,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(LlmdSticky {
            affinity: Affinity {
                threshold: p.f32("affinity_threshold"),
                penalty_ms: p.f32("max_ttft_penalty_ms"),
            },
            ms_per_token: p.number("ms_per_token").map(|ms| ms as f32),
            full: p.f32("queue_threshold_tokens"),
            blocks: llmd::Blocks::of(p),
        })
    },
};

struct LlmdSticky {
    affinity: Affinity,
    /// `None`: each replica's own.
    ms_per_token: Option<f32>,
    /// Tokens in flight above which loads count as equal.
    full: f32,
    blocks: llmd::Blocks,
}

impl Policy for LlmdSticky {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        if view.replicas.row(view.eligible[0]).pool.pairs() {
            let (outstanding, replica) = choose::least_outstanding(view, draw);
            return Pick::unscored(replica, Why::LeastLoaded(f64::from(outstanding)));
        }
        let mut candidates = view.eligible.to_vec();
        self.affinity.narrow(&mut candidates, view, &self.blocks, |r| {
            let row = view.replicas.row(r);
            row.front_tokens * self.ms_per_token.unwrap_or(row.ms_per_token)
        });
        let mut least = Least::new();
        for r in candidates {
            let matched = view.matched_tokens(r);
            least.offer(
                self.load(view.replicas.row(r), view.request.prompt_tokens, matched),
                r,
                draw,
            );
        }
        let (load, replica) = least.get().expect("a view has at least one candidate");
        Pick::scored(replica, f64::from(load))
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        if c.row.pool.pairs() {
            return vec![("outstanding", f64::from(c.row.outstanding))];
        }
        vec![("load_tokens", f64::from(self.load(&c.row, c.prompt_tokens, c.matched_tokens)))]
    }
}

impl LlmdSticky {
    /// Tokens in flight, with those that the request would add.
    fn load(&self, row: &Row, prompt: u32, matched: f32) -> f32 {
        (row.front_tokens + prompt as f32 - self.blocks.cap(matched)).min(self.full)
    }
}
