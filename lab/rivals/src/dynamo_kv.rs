//! NVIDIA Dynamo's KV router: blocks to prefill plus blocks in use.
//!
//! Dynamo 1.6.1 with the defaults of its frontend, as its selection service answers (its choices
//! are replayed by `tests/all/reference.rs`):
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
//!
//! In front of pools it picks the decode replica first, by blocks in use alone, and then the prefill
//! replica by the whole cost. Its conditional disaggregation may leave the prompt to the decode
//! replica: if that lacks few tokens of it (`isl_bounding`), if the prefill replica is busy
//! (`prefill_load`), or in either case (`isl_or_load`).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{
    Param, Params, Pick, Policy, PolicyEvent, Spec, View, choose::Least,
};
use meridian_routing::{Admission, CandidateRow, Decision, IndexSpec, Row};

use crate::active_blocks::ActiveBlocks;
use crate::kv_index::KV_INDEX;
use crate::weighted;

/// Tokens of a block: `--kv-cache-block-size 16`.
const BLOCK_TOKENS: f32 = 16.0;

pub(crate) static SPEC: Spec = Spec {
    name: "dynamo_kv",
    summary: "Dynamo's approximate mode, without KV events: least blocks to prefill plus blocks \
              in use",
    source: "Dynamo 1.6.1, its selection service",
    params: &[
        Param::number("prefill_load_scale", 1.0, (0.0, 1000.0), "weight of blocks to prefill"),
        Param::number("overlap_credit", 1.0, (0.0, 1000.0), "weight of blocks already cached"),
        Param::number("temperature", 0.0, (0.0, 100.0), "0: the least cost; above: softmax"),
        Param::number("ttl_s", 120.0, (1.0, 86400.0), "seconds a sent block counts as resident"),
        Param::word(
            "conditional_disagg",
            &["off", "isl_bounding", "prefill_load", "isl_or_load"],
            "when a decode replica computes the prompt itself; off: never",
        ),
        Param::number(
            "eff_isl_threshold",
            2048.0,
            (0.0, 16_777_216.0),
            "isl_bounding: fewer prompt tokens than this are missing at the decode replica",
        ),
        Param::number(
            "eff_isl_ratio_threshold",
            0.7,
            (0.0, 1.0),
            "isl_bounding: they are a smaller share of the prompt than this",
        ),
        // Dynamo's default is 4 times the engine's batch, which vLLM has at 8,192 tokens.
        Param::number(
            "prefill_busy_tokens",
            32768.0,
            (0.0, 16_777_216.0),
            "prefill_load: more tokens than this are ahead at the prefill replica",
        ),
    ],
    admission: Admission::Blind,
    index: |p| Some(IndexSpec { ttl: Some(p.seconds("ttl_s")), ..KV_INDEX }),
    head_bytes: |_| 0,
    build: |p| {
        Box::new(DynamoKv {
            scale: p.f32("prefill_load_scale"),
            credit: p.f32("overlap_credit"),
            temperature: p.f32("temperature"),
            bypass: Bypass::of(p),
            active: ActiveBlocks::default(),
        })
    },
};

struct DynamoKv {
    scale: f32,
    credit: f32,
    temperature: f32,
    bypass: Bypass,
    active: ActiveBlocks,
}

/// The rules by which a decode replica computes a prompt itself; infinite or negative thresholds
/// turn one off.
struct Bypass {
    missing: f32,
    share: f32,
    busy: f32,
}

impl Bypass {
    fn of(p: &Params) -> Bypass {
        let either = p.is("conditional_disagg", "isl_or_load");
        let short = either || p.is("conditional_disagg", "isl_bounding");
        let busy = either || p.is("conditional_disagg", "prefill_load");
        Bypass {
            missing: if short { p.f32("eff_isl_threshold") } else { -1.0 },
            share: p.f32("eff_isl_ratio_threshold"),
            busy: if busy { p.f32("prefill_busy_tokens") } else { f32::INFINITY },
        }
    }

    fn applies(&self, view: &View<'_>, from: ReplicaId, to: ReplicaId) -> bool {
        let prompt = view.request.prompt_tokens as f32;
        let missing = prompt - view.matched_tokens(to);
        let is_short = missing < self.missing && missing < self.share * prompt;
        is_short || view.replicas.row(from).front_tokens > self.busy
    }
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

    fn splits(&self, view: &View<'_>, from: ReplicaId, to: ReplicaId) -> bool {
        !self.bypass.applies(view, from, to)
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        let prefill = self.prefill(&c.row, c.prompt_tokens as f32, c.matched_tokens);
        vec![("prefill_blocks", f64::from(prefill))]
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Dispatched(sent) => self.active.add(sent.replica, &sent.request.blocks),
            PolicyEvent::Ended { request, replica } => self.active.remove(replica, &request.blocks),
            PolicyEvent::Replicas(replicas) => self.active.keep(replicas.ids()),
            _ => {}
        }
    }
}

impl DynamoKv {
    /// The blocks to prefill, weighted. Dynamo does not count them where prompts are computed
    /// elsewhere.
    #[inline]
    fn prefill(&self, row: &Row, prompt: f32, matched: f32) -> f32 {
        if row.pool.pairs() {
            return 0.0;
        }
        let blocks = (row.front_tokens + prompt - self.credit * matched) / BLOCK_TOKENS;
        self.scale * blocks.max(0.0)
    }

    /// The cost of a candidate.
    #[inline]
    fn cost(&self, view: &View<'_>, replica: ReplicaId) -> f32 {
        let row = view.replicas.row(replica);
        let prompt = view.request.prompt_tokens as f32;
        self.prefill(row, prompt, view.matched_tokens(replica))
            + self.active.with(replica, &view.request.blocks) as f32
    }

    /// Draws by exp(-(cost - least) / (spread * temperature)); without a spread, evenly.
    fn draw(&self, view: &View<'_>, least: f32, draw: &mut Rng) -> Pick {
        let costs: Vec<f32> = view.eligible.iter().map(|&r| self.cost(view, r)).collect();
        let most = costs.iter().copied().fold(least, f32::max);
        let scale = ((most - least) * self.temperature).max(f32::MIN_POSITIVE);
        let weight = |cost: &f32| f64::from(libm::expf(-(cost - least) / scale));
        let weights: Vec<f64> = costs.iter().map(weight).collect();
        let i = weighted::draw(&weights, draw);
        Pick::scored(view.eligible[i], f64::from(costs[i]))
    }
}
