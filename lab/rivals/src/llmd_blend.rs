//! llm-d's blend: queue, KV use and prefix, weighed 2 / 2 / 3.
//!
//! `pkg/epp/config/loader/defaults.go` of llm-d-router at ebab6879 (August 2026), which its chart
//! installs too; its documentation calls the rule the legacy blend, and [`crate::llmd_sticky`] is its
//! successor:
//!
//! ```text
//! score = 2 (maxq - q) / (maxq - minq) + 2 (1 - kv) + 3 matched / prompt        most wins
//! ```
//!
//! q is the engine's waiting requests (all candidates score 1 when equal), and the prefix is counted in
//! blocks as [`crate::llmd`] has them. Ties are drawn. The queue term is relative to the fleet at the
//! moment, so a queue of one against none weighs as much as a hundred against none. llm-d scrapes
//! every 50 ms and does not count its own dispatches in between, and neither does q here. Its
//! saturation detector and flow control are not part of the rule.
//!
//! In front of pools it picks the decode replica first. A prefill replica computes the prompt if the
//! decode replica lacks at least `non_cached_tokens` of it (`prefix-based-pd-decider`).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{Param, Params, Pick, Policy, Spec, View, choose::Least};
use meridian_routing::{Admission, CandidateRow, Decision};

use crate::llmd;

pub(crate) const QUEUE_WEIGHT: Param =
    Param::number("queue_weight", 2.0, (0.0, 1000.0), "weight of the queue term");
pub(crate) const KV_WEIGHT: Param =
    Param::number("kv_weight", 2.0, (0.0, 1000.0), "weight of free KV");
pub(crate) const PREFIX_WEIGHT: Param =
    Param::number("prefix_weight", 3.0, (0.0, 1000.0), "weight of the prefix match");

/// llm-d's own default, 0, turns its pools off; 8 is the value in its documentation.
pub(crate) const NON_CACHED_TOKENS: Param = Param::number(
    "non_cached_tokens",
    8.0,
    (0.0, 16_777_216.0),
    "prompt tokens that the decode replica must lack for a prefill replica to compute it",
);

pub(crate) static SPEC: Spec = Spec {
    name: "llmd_blend",
    summary: "weighed sum of queue, KV use and prefix match",
    source: "llm-d-router at ebab6879 (August 2026), pkg/epp/config/loader/defaults.go",
    params: &[
        QUEUE_WEIGHT,
        KV_WEIGHT,
        PREFIX_WEIGHT,
        llmd::LRU_BLOCKS,
        llmd::MAX_PREFIX_TOKENS,
        NON_CACHED_TOKENS,
    ],
    admission: Admission::Blind,
    index: llmd::index,
    head_bytes: |_| 0,
    build: |p| Box::new(LlmdBlend { blend: Blend::of(p) }),
};

struct LlmdBlend {
    blend: Blend,
}

impl Policy for LlmdBlend {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut best = Least::new();
        for (r, score) in self.blend.scores(view) {
            best.offer(Reverse(score), r, draw);
        }
        let (Reverse(score), replica) = best.get().expect("a view has at least one candidate");
        // The rule maximises; the reason shows the equivalent minimised value.
        Pick::scored(replica, -f64::from(score))
    }

    fn splits(&self, view: &View<'_>, _: ReplicaId, to: ReplicaId) -> bool {
        self.blend.splits(view, to)
    }

    fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&'static str, f64)> {
        self.blend.terms(c, of)
    }
}

/// The three scorers, for rules that add others to them.
pub(crate) struct Blend {
    queue: f32,
    kv: f32,
    prefix: f32,
    blocks: llmd::Blocks,
    non_cached: f32,
}

/// The shortest and the longest queue of the candidates.
#[derive(Clone, Copy)]
struct Queues {
    shortest: u32,
    longest: u32,
}

impl Queues {
    fn of(queues: impl Iterator<Item = u32>) -> Queues {
        let none = Queues { shortest: u32::MAX, longest: 0 };
        queues.fold(none, |seen, queue| Queues {
            shortest: seen.shortest.min(queue),
            longest: seen.longest.max(queue),
        })
    }

    #[inline]
    fn term(self, queue: u32, weight: f32) -> f32 {
        match self.longest == self.shortest {
            true => weight,
            false => self.longest.saturating_sub(queue) as f32 * weight,
        }
    }
}

impl Blend {
    /// By the parameters that this file and [`llmd`] declare.
    pub(crate) fn of(p: &Params) -> Blend {
        Blend {
            queue: p.f32("queue_weight"),
            kv: p.f32("kv_weight"),
            prefix: p.f32("prefix_weight"),
            blocks: llmd::Blocks::of(p),
            non_cached: p.f32("non_cached_tokens"),
        }
    }

    /// The candidates with their scores, of which the highest is the best.
    pub(crate) fn scores<'a>(
        &'a self,
        view: &'a View<'_>,
    ) -> impl Iterator<Item = (ReplicaId, f32)> + 'a {
        let queues =
            Queues::of(view.eligible.iter().map(|&r| view.replicas.row(r).reported_pending));
        let (queue, prefix) =
            (self.queue_weight(queues), self.prefix_weight(view.request.prompt_tokens));
        view.eligible.iter().map(move |&r| {
            let row = view.replicas.row(r);
            let score = queues.term(row.reported_pending, queue)
                + self.kv * (1.0 - row.kv_used)
                + self.blocks.cap(view.matched_tokens(r)) * prefix;
            (r, score)
        })
    }

    /// Whether a prefill replica computes the prompt of a request that `to` answers.
    pub(crate) fn splits(&self, view: &View<'_>, to: ReplicaId) -> bool {
        view.request.prompt_tokens as f32 - view.matched_tokens(to) >= self.non_cached
    }

    /// The terms of a candidate's score.
    pub(crate) fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&'static str, f64)> {
        let eligible = of.candidates.iter().filter(|c| c.ineligible.is_none());
        let queues = Queues::of(eligible.map(|c| c.row.reported_pending));
        let queue = queues.term(c.row.reported_pending, self.queue_weight(queues));
        let prefix = self.blocks.cap(c.matched_tokens) * self.prefix_weight(c.prompt_tokens);
        vec![
            ("queue", f64::from(queue)),
            ("free_kv", f64::from(self.kv * (1.0 - c.row.kv_used))),
            ("prefix", f64::from(prefix)),
        ]
    }

    /// 2 / (maxq - minq), so that the scan divides once; equal queues all get the full 2.
    fn queue_weight(&self, queues: Queues) -> f32 {
        self.queue / queues.longest.saturating_sub(queues.shortest).max(1) as f32
    }

    /// 3 / tokens of the prompt's blocks.
    fn prefix_weight(&self, prompt: u32) -> f32 {
        self.prefix / self.blocks.tokens(prompt)
    }
}
