//! NVIDIA Dynamo's KV router: blocks to prefill plus blocks in use.
//!
//! Dynamo 1.6.1 with the defaults of its frontend, as its selection service answers (its choices
//! are replayed by `tests/reference.rs`):
//!
//! ```text
//! cost = prefill_load_scale * max(prefill blocks in front + request blocks
//!                                 - overlap_credit * overlap blocks, 0)
//!      + blocks in use if it came here, each counted once
//! ```
//!
//! Blocks that requests share count once, and only those that the request would add count for it:
//! besides cached blocks, a request is drawn to the replica that is serving similar requests now.
//! The least cost wins, and ties are drawn; at a temperature above 0 the replica is drawn by
//! softmax over costs scaled by their spread. This is Dynamo's approximate mode: without KV events,
//! a block counts as resident for 120 s after it was last sent.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, Time};

use super::active_blocks::ActiveBlocks;
use super::choose::Least;
use super::spec::TOTAL_BLOCKS;
use super::{Dispatched, Param, Pick, Policy, Spec, View};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::index::{Evict, IndexSpec, Insert};
use crate::replicas::Replicas;
use crate::request::Request;

/// Tokens of a block: `--kv-cache-block-size 16`.
const BLOCK_TOKENS: f32 = 16.0;

pub(super) static SPEC: Spec = Spec {
    name: "dynamo_kv",
    summary: "Dynamo's approximate mode, without KV events: least blocks to prefill plus blocks \
              in use",
    source: "Dynamo 1.6.1, its selection service",
    params: &[
        Param::number("prefill_load_scale", 1.0, (0.0, 1000.0), "weight of blocks to prefill"),
        Param::number("overlap_credit", 1.0, (0.0, 1000.0), "weight of blocks already cached"),
        Param::number("temperature", 0.0, (0.0, 100.0), "0: the least cost; above: softmax"),
        Param::number("ttl_s", 120.0, (1.0, 86400.0), "seconds a sent block counts as resident"),
    ],
    admission: Admission::Blind,
    index: |p| {
        Some(IndexSpec {
            block_bytes: 64,
            per_target_blocks: None,
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::OnDispatch,
            ttl: Some(p.seconds("ttl_s")),
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(DynamoKv {
            scale: p.f32("prefill_load_scale"),
            credit: p.f32("overlap_credit"),
            temperature: p.f32("temperature"),
            active: ActiveBlocks::default(),
        })
    },
};

struct DynamoKv {
    scale: f32,
    credit: f32,
    temperature: f32,
    active: ActiveBlocks,
}

impl Policy for DynamoKv {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut least = Least::new();
        for &r in view.eligible {
            least.offer(self.cost(view, r), r, draw);
        }
        let (cost, replica) = least.get().expect("a view has at least one candidate");
        if self.temperature == 0.0 {
            return Pick::scored(replica, f64::from(cost));
        }
        self.draw(view, cost, draw)
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        let prompt = c.prompt_tokens as f32;
        let prefill = self.prefill(c.row.front_tokens, prompt, c.matched_tokens);
        vec![("prefill_blocks", f64::from(prefill))]
    }

    fn on_dispatched(&mut self, _now: Time, sent: Dispatched<'_>) {
        self.active.add(sent.replica, &sent.request.blocks);
    }

    fn on_ended(&mut self, request: &Request, replica: ReplicaId) {
        self.active.remove(replica, &request.blocks);
    }

    fn on_replicas_changed(&mut self, replicas: &Replicas) {
        self.active.keep(replicas.ids());
    }
}

impl DynamoKv {
    #[inline]
    fn prefill(&self, front: f32, prompt: f32, matched: f32) -> f32 {
        self.scale * ((front + prompt - self.credit * matched) / BLOCK_TOKENS).max(0.0)
    }

    /// The cost of a candidate.
    #[inline]
    fn cost(&self, view: &View<'_>, replica: ReplicaId) -> f32 {
        let row = view.replicas.row(replica);
        let prompt = view.request.prompt_tokens as f32;
        self.prefill(row.front_tokens, prompt, view.matched_tokens(replica))
            + self.active.with(replica, &view.request.blocks) as f32
    }

    /// Draws by exp(-(cost - least) / (spread * temperature)); without a spread, evenly.
    fn draw(&self, view: &View<'_>, least: f32, draw: &mut Rng) -> Pick {
        let costs: Vec<f32> = view.eligible.iter().map(|&r| self.cost(view, r)).collect();
        let most = costs.iter().copied().fold(least, f32::max);
        let scale = ((most - least) * self.temperature).max(f32::MIN_POSITIVE);
        let weight = |cost: &f32| f64::from(libm::expf(-(cost - least) / scale));
        let total: f64 = costs.iter().map(weight).sum();
        let mut left = draw.unit() * total;
        let drawn = costs.iter().position(|cost| {
            left -= weight(cost);
            left < 0.0
        });
        let i = drawn.unwrap_or(costs.len() - 1);
        Pick::scored(view.eligible[i], f64::from(costs[i]))
    }
}
