//! llm-d with its latency predictor: two affinity gates around a tier that meets the objective.
//!
//! llm-d-router at ebab6879 (August 2026), the profile of its chart with `latencyPredictor.enabled`
//! (`config/charts/routerlib/templates/_config.yaml`):
//!
//! 1. `prefix-cache-affinity-filter` ([`crate::llmd_affinity`]) at 0.99 of the prompt;
//! 2. `slo-headroom-tier-filter`: the candidates that meet the objective, or in one of a hundred cases
//!    those that do not, so that a replica is seen to recover;
//! 3. `prefix-cache-affinity-filter` at 0.80 of the prompt;
//! 4. `latency-scorer`: headroom = objective - prediction; without an objective it is minus the
//!    prediction. If no replica meets the objective and some candidates are idle, only these score.
//! 5. `weighted-random-picker`: drawn by score.
//!
//! ```text
//! x     = 0.8 (|TTFT headroom| - min) / (max - min) + 0.2 (|TPOT headroom| - min) / (max - min)
//! score = 1 + floor(100 (1 - x))                                     drawn in proportion
//! ```
//!
//! A term whose headrooms are all equal leaves its weight to the other one. So the candidate nearest
//! to its objective is the likeliest: the fullest that meets it, and the fastest if none does.
//!
//! Deliberately otherwise: llm-d trains XGBoost models beside its router. Here the prediction is what
//! the machine has learned of each replica: t_p (prefill in front + unmatched prompt) for the TTFT, and
//! the slope of a step times the running requests for the TPOT, whose constant part is the same for
//! like replicas and cancels. The objective is the request's deadline. There is none for the TPOT, so
//! that a request with a deadline is judged by its TTFT alone. Its admission by predicted latency is
//! not part of the rule, and the chart says nothing of pools: here the rule picks both legs.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{Param, Params, Pick, Policy, Spec, View};
use meridian_routing::{Admission, CandidateRow, Decision};

use crate::llmd_affinity::Affinity;
use crate::{llmd, weighted};

/// Differences of headroom up to this count as none, ms.
const EPSILON: f64 = 1e-9;
/// The highest score less one.
const SCORES: f64 = 100.0;

pub(crate) static SPEC: Spec = Spec {
    name: "llmd_predicted",
    summary: "drawn by predicted latency among replicas that meet the objective and have the prompt",
    source: "llm-d-router at ebab6879 (August 2026), its chart with latencyPredictor.enabled",
    params: &[
        Param::number(
            "strict",
            0.99,
            (0.0, 1.0),
            "share of the prompt's blocks for the first gate",
        ),
        Param::number("loose", 0.8, (0.0, 1.0), "share of the prompt's blocks for the second gate"),
        Param::number(
            "max_ttft_penalty_ms",
            5000.0,
            (0.0, 1e7),
            "ms of TTFT by which sticky replicas may be slower than the others; 0: any",
        ),
        Param::number(
            "explore",
            0.01,
            (0.0, 1.0),
            "chance of the replicas that miss the objective if others meet it",
        ),
        Param::number("ttft_weight", 0.8, (0.0, 1000.0), "weight of the TTFT"),
        Param::number("tpot_weight", 0.2, (0.0, 1000.0), "weight of the TPOT"),
        llmd::LRU_BLOCKS,
        llmd::MAX_PREFIX_TOKENS,
    ],
    admission: Admission::Blind,
    index: llmd::index,
    head_bytes: |_| 0,
    build: |p| Box::new(LlmdPredicted::of(p)),
};

struct LlmdPredicted {
    strict: Affinity,
    loose: Affinity,
    explore: f64,
    ttft_weight: f64,
    tpot_weight: f64,
    blocks: llmd::Blocks,
}

/// What a candidate's latencies leave of the objective, ms.
#[derive(Clone, Copy)]
struct Headroom {
    ttft: f32,
    tpot: f32,
}

impl Headroom {
    fn meets(self) -> bool {
        self.ttft >= 0.0 && self.tpot >= 0.0
    }
}

impl Policy for LlmdPredicted {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut left = view.eligible.to_vec();
        let ttft = |r| self.ttft_ms(view, r);
        self.strict.narrow(&mut left, view, &self.blocks, ttft);
        self.tier(&mut left, view, draw);
        self.loose.narrow(&mut left, view, &self.blocks, ttft);
        self.idle(&mut left, view);
        let picked = left[weighted::draw(&self.scores(&left, view), draw)];
        Pick::scored(picked, f64::from(ttft(picked)))
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        let unmatched = c.prompt_tokens as f32 - self.blocks.cap(c.matched_tokens);
        vec![
            ("front_ms", f64::from(c.row.ms_per_token * c.row.front_tokens)),
            ("prefill_ms", f64::from(c.row.ms_per_token * unmatched)),
        ]
    }
}

impl LlmdPredicted {
    fn of(p: &Params) -> LlmdPredicted {
        let gate =
            |name| Affinity { threshold: p.f32(name), penalty_ms: p.f32("max_ttft_penalty_ms") };
        let number = |name| p.number(name).expect("the parameter takes no words");
        LlmdPredicted {
            strict: gate("strict"),
            loose: gate("loose"),
            explore: number("explore"),
            ttft_weight: number("ttft_weight"),
            tpot_weight: number("tpot_weight"),
            blocks: llmd::Blocks::of(p),
        }
    }

    fn ttft_ms(&self, view: &View<'_>, replica: ReplicaId) -> f32 {
        let row = view.replicas.row(replica);
        let unmatched =
            view.request.prompt_tokens as f32 - self.blocks.cap(view.matched_tokens(replica));
        row.ms_per_token * row.front_tokens + row.ms_per_token * unmatched
    }

    fn headroom(&self, view: &View<'_>, replica: ReplicaId) -> Headroom {
        let ttft = self.ttft_ms(view, replica);
        match view.request.deadline {
            Some(due) => {
                Headroom { ttft: due.since(view.now).as_secs_f32() * 1e3 - ttft, tpot: 0.0 }
            }
            None => {
                let row = view.replicas.row(replica);
                Headroom { ttft: -ttft, tpot: -(row.step_slope_ms * row.running as f32) }
            }
        }
    }

    /// Keeps the candidates that meet the objective, and now and then those that do not.
    fn tier(&self, candidates: &mut Vec<ReplicaId>, view: &View<'_>, draw: &mut Rng) {
        let meets = |r: &ReplicaId| self.headroom(view, *r).meets();
        let good = candidates.iter().filter(|r| meets(r)).count();
        if view.request.deadline.is_none() || good == 0 || good == candidates.len() {
            return;
        }
        let explores = draw.unit() < self.explore;
        candidates.retain(|r| meets(r) != explores);
    }

    /// If no replica meets the objective, keeps those without a request, if there are any.
    fn idle(&self, candidates: &mut Vec<ReplicaId>, view: &View<'_>) {
        let is_idle = |r: &ReplicaId| view.replicas.row(*r).outstanding == 0;
        let misses =
            |r: &ReplicaId| view.request.deadline.is_none() || !self.headroom(view, *r).meets();
        if candidates.iter().all(misses) && candidates.iter().any(is_idle) {
            candidates.retain(is_idle);
        }
    }

    fn scores(&self, candidates: &[ReplicaId], view: &View<'_>) -> Vec<f64> {
        let each: Vec<Headroom> = candidates.iter().map(|r| self.headroom(view, *r)).collect();
        let ttft = Extent::of(each.iter().map(|h| h.ttft));
        let tpot = Extent::of(each.iter().map(|h| h.tpot));
        let (first, rest) = match (ttft.is_flat(), tpot.is_flat()) {
            (true, false) => (0.0, 1.0),
            (false, true) => (1.0, 0.0),
            _ => {
                let sum = self.ttft_weight + self.tpot_weight;
                let first = if sum > 0.0 { self.ttft_weight / sum } else { 1.0 };
                (first, 1.0 - first)
            }
        };
        let score = |h: &Headroom| {
            let x = first * ttft.place(h.ttft) + rest * tpot.place(h.tpot);
            1.0 + libm::floor(SCORES * (1.0 - x))
        };
        each.iter().map(score).collect()
    }
}

/// The smallest and the largest of some headrooms, whatever their sign.
struct Extent {
    least: f64,
    most: f64,
}

impl Extent {
    fn of(headrooms: impl Iterator<Item = f32>) -> Extent {
        let none = Extent { least: f64::INFINITY, most: 0.0 };
        headrooms
            .map(|h| f64::from(h.abs()))
            .fold(none, |seen, h| Extent { least: seen.least.min(h), most: seen.most.max(h) })
    }

    fn is_flat(&self) -> bool {
        self.most - self.least <= EPSILON
    }

    /// Between the smallest, 0, and the largest, 1.
    fn place(&self, headroom: f32) -> f64 {
        match self.is_flat() {
            true => 0.5,
            false => (f64::from(headroom.abs()) - self.least) / (self.most - self.least),
        }
    }
}
