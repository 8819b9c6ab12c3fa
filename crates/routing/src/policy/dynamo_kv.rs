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
//! a request is drawn to whoever serves its like at this moment, beside what is cached. The least
//! cost wins and equals are drawn among; at a temperature above 0 the replica is drawn by softmax
//! over costs scaled by their spread. Without KV events, the mode here, a block counts as resident
//! for 120 s after it was last sent.
//!
//! The explain endpoint can tell the blocks in use of the newest decision only.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, Time};

use super::active_blocks::ActiveBlocks;
use super::choose::Least;
use super::{Param, Pick, Policy, Spec, TOTAL_BLOCKS, View};
use crate::admission::Admission;
use crate::explain::CandidateRow;
use crate::index::{Evict, IndexSpec, Insert};
use crate::replicas::Replicas;
use crate::request::Request;
use crate::why::Why;

/// Tokens of a block: `--kv-cache-block-size 16`.
const BLOCK_TOKENS: f32 = 16.0;

pub(super) static SPEC: Spec = Spec {
    name: "dynamo_kv",
    summary: "least blocks to prefill plus blocks in use",
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
            newest: (0, Vec::new()),
            costs: Vec::new(),
        })
    },
};

struct DynamoKv {
    scale: f32,
    credit: f32,
    temperature: f32,
    active: ActiveBlocks,
    /// Of the newest decision: the prompt's tokens, and by replica the blocks in use.
    newest: (u32, Vec<f32>),
    /// Buffer of a draw.
    costs: Vec<f32>,
}

impl Policy for DynamoKv {
    fn pick(&mut self, view: &View<'_>, rng: &mut Rng) -> Pick {
        self.newest.0 = view.request.prompt_tokens;
        self.newest.1.resize(view.matched.len(), 0.0);
        let mut least = Least::new();
        for &r in view.eligible {
            self.newest.1[r.index()] = self.active.with(r, &view.request.blocks) as f32;
            least.offer(self.cost(view, r), r, rng);
        }
        let (cost, replica) = least.get().expect("a view has at least one candidate");
        if self.temperature == 0.0 {
            return Pick::Replica(replica, Why::LowestScore(f64::from(cost)));
        }
        self.draw(view, cost, rng)
    }

    fn terms(&self, c: &CandidateRow) -> Vec<(&'static str, f64)> {
        let prompt = c.prompt_tokens as f32;
        let prefill = self.prefill(c.row.front_tokens, prompt, c.matched_tokens);
        let mut terms = vec![("prefill_blocks", f64::from(prefill))];
        if self.newest.0 == c.prompt_tokens
            && let Some(blocks) = self.newest.1.get(c.replica.index())
        {
            terms.push(("active_blocks", f64::from(*blocks)));
        }
        terms
    }

    fn dispatched(&mut self, _now: Time, request: &Request, replica: ReplicaId) {
        self.active.add(replica, &request.blocks);
    }

    fn ended(&mut self, request: &Request, replica: ReplicaId) {
        self.active.remove(replica, &request.blocks);
    }

    fn replicas_changed(&mut self, replicas: &Replicas) {
        self.active.keep(replicas.ids());
    }
}

impl DynamoKv {
    #[inline]
    fn prefill(&self, front: f32, prompt: f32, matched: f32) -> f32 {
        self.scale * ((front + prompt - self.credit * matched) / BLOCK_TOKENS).max(0.0)
    }

    /// The cost of a candidate whose blocks in use stand in `newest`.
    #[inline]
    fn cost(&self, view: &View<'_>, replica: ReplicaId) -> f32 {
        let row = view.replicas.row(replica);
        let prompt = view.request.prompt_tokens as f32;
        self.prefill(row.front_tokens, prompt, view.matched_tokens(replica))
            + self.newest.1[replica.index()]
    }

    /// Draws by exp(-(cost - least) / (spread * temperature)); without a spread, evenly.
    fn draw(&mut self, view: &View<'_>, least: f32, rng: &mut Rng) -> Pick {
        let mut costs = core::mem::take(&mut self.costs);
        costs.clear();
        costs.extend(view.eligible.iter().map(|&r| self.cost(view, r)));
        let most = costs.iter().copied().fold(least, f32::max);
        let scale = ((most - least) * self.temperature).max(f32::MIN_POSITIVE);
        let weight = |cost: &f32| f64::from(libm::expf(-(cost - least) / scale));
        let total: f64 = costs.iter().map(weight).sum();
        let mut left = rng.unit() * total;
        let drawn = costs.iter().position(|cost| {
            left -= weight(cost);
            left < 0.0
        });
        let i = drawn.unwrap_or(costs.len() - 1);
        let pick = Pick::Replica(view.eligible[i], Why::LowestScore(f64::from(costs[i])));
        self.costs = costs;
        pick
    }
}
