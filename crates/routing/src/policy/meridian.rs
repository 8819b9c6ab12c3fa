//! The default policy: one price for time, and more of it for work on busy replicas.
//!
//! ```text
//! score = t_p * front                              prefill that is before this one
//!       + t_p * (p - m) * (1 + 4 u^2)              its own unmatched prefill, at a price
//!       + 10 ms * running                          slower steps for everybody
//! ```
//!
//! An idle fleet (u = 0) minimises TTFT, which is GORGO's aim; a busy one (u = 1) minimises work,
//! which is SkyWalker's: a cold prompt costs five times its time where time is short, so matches
//! win there. There is no threshold between the two. The shape of the price hardly matters, its
//! presence does. The price of a running request keeps TTFT alone from herding onto the first
//! warm replica when a long shared system prompt matches everywhere.
//!
//! Eligible is who has KV for it (admission `pending_kv`). When a KV-full replica would score
//! over 50 ms better than the best eligible one, the request waits for it, at most 10 s, rather
//! than spill cold (delay scheduling, Zaharia et al. 2010). t_p is learned of each replica by
//! the machine, and so is the trust that scales m where engines find less cached than the index
//! predicts; both prompt and answer enter the index. Peers are not part of this file.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, Rng};

use super::{Param, Pick, Policy, Spec, TOTAL_BLOCKS, View};
use crate::admission::Admission;
use crate::explain::CandidateRow;
use crate::index::{Evict, IndexSpec, Insert};
use crate::replica::Row;
use crate::why::Why;

pub(super) static SPEC: Spec = Spec {
    name: "meridian",
    summary: "least of prefill in front, priced unmatched prefill, and running requests",
    source: "Meridian; GORGO section 3.4, SkyWalker section 3.3, delay scheduling",
    params: &[
        Param::number(
            "price_weight",
            4.0,
            (0.0, 1000.0),
            "how much dearer unmatched prefill is on a fully used replica",
        ),
        Param::number("running_ms", 10.0, (0.0, 1e5), "price of a running request in ms"),
        Param::number_or(
            "wait_gain_ms",
            50.0,
            (0.0, 1e6),
            &["off"],
            "hold a request when a KV-full replica scores this much better; off: never",
        ),
        Param::number("wait_max_s", 10.0, (0.0, 3600.0), "longest such hold in seconds"),
    ],
    admission: Admission::PendingKv,
    index: |_| {
        Some(IndexSpec {
            block_bytes: 64,
            per_target_blocks: None,
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::Both,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(Meridian {
            price: p.f32("price_weight"),
            running_ms: p.f32("running_ms"),
            wait_gain_ms: p.number("wait_gain_ms").map_or(f32::INFINITY, |n| n as f32),
            wait_max: p.seconds("wait_max_s"),
            scores: Vec::new(),
        })
    },
};

struct Meridian {
    price: f32,
    running_ms: f32,
    wait_gain_ms: f32,
    wait_max: Duration,
    scores: Vec<f32>,
}

impl Policy for Meridian {
    fn pick(&mut self, view: &View<'_>, rng: &mut Rng) -> Pick {
        self.fill(view);
        let best = least(&self.scores);
        if !view.full.is_empty() && view.waited < self.wait_max {
            let full = view
                .full
                .iter()
                .map(|&r| self.score(view.replicas.row(r), view.matched_tokens(r), prompt(view)));
            if best - full.fold(f32::INFINITY, f32::min) > self.wait_gain_ms {
                return Pick::Wait;
            }
        }
        let i = position(&self.scores, best, rng);
        Pick::Replica(view.eligible[i], Why::LowestScore(f64::from(best)))
    }

    fn terms(&self, c: &CandidateRow) -> Vec<(&'static str, f64)> {
        let row = &c.row;
        let unmatched = c.prompt_tokens as f32 - c.matched_tokens * row.trust;
        let own = row.ms_per_token * unmatched;
        let price = own * self.price * row.utilisation * row.utilisation;
        vec![
            ("front_ms", f64::from(row.ms_per_token * row.front_tokens)),
            ("prefill_ms", f64::from(own)),
            ("price_ms", f64::from(price)),
            ("running_ms", f64::from(self.running_ms * row.running as f32)),
        ]
    }
}

fn prompt(view: &View<'_>) -> f32 {
    view.request.prompt_tokens as f32
}

impl Meridian {
    #[inline(always)]
    fn score(&self, row: &Row, matched: f32, prompt: f32) -> f32 {
        let price = 1.0 + self.price * row.utilisation * row.utilisation;
        // Counts stay far below 2^31, and the signed conversion is the one that vectorises.
        let running = row.running as i32 as f32;
        row.ms_per_token * (row.front_tokens + (prompt - matched * row.trust) * price)
            + self.running_ms * running
    }

    /// Scores of the candidates, in their order.
    fn fill(&mut self, view: &View<'_>) {
        let (prompt, block) = (prompt(view), view.request.block_tokens);
        let mut scores = core::mem::take(&mut self.scores);
        scores.clear();
        let (rows, matched) = (view.replicas.rows(), view.matched);
        let one = |row: &Row, blocks: u32| {
            self.score(row, (blocks as i32 as f32 * block).min(prompt), prompt)
        };
        if view.eligible.len() == rows.len() {
            // Everybody is eligible, the common case: a straight run over the table.
            scores.extend(rows.iter().zip(matched).map(|(row, &b)| one(row, b)));
        } else {
            let of = |r: &meridian_base::ReplicaId| one(&rows[r.index()], matched[r.index()]);
            scores.extend(view.eligible.iter().map(of));
        }
        self.scores = scores;
    }
}

/// The least score. Eight running minima instead of one: a lone one is a chain of dependent
/// comparisons, which does not vectorise.
fn least(scores: &[f32]) -> f32 {
    let mut lanes = [f32::INFINITY; 8];
    let chunks = scores.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &s) in lanes.iter_mut().zip(chunk) {
            *lane = if s < *lane { s } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::INFINITY, |a, &b| if b < a { b } else { a })
}

/// Where the least score stands; drawn where it stands more than once.
fn position(scores: &[f32], least: f32, rng: &mut Rng) -> usize {
    let ties = scores.iter().filter(|&&s| s == least).count();
    let turn = if ties > 1 { rng.below(ties) } else { 0 };
    let mut equal = scores.iter().enumerate().filter(|(_, s)| **s == least);
    equal.nth(turn).map_or(0, |(i, _)| i)
}
