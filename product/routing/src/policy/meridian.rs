//! The default policy: it prices a placement in GPU time.
//!
//! ```text
//! price = 1.5 RTT                        the way there
//!       + t_p front                      prefill ahead of the request
//!       + t_p (p - m) (1 + q + r + w n)  its own prefill, which q queued and n running requests await
//!       + w N s n                        its reply of N tokens, which slows n running requests
//!       + load                           its LoRA adapter, if it is not on the GPU
//! ```
//!
//! The time until the request's own first token counts in full. While an engine prefills its p - m
//! unmatched tokens, the requests that wait for a replica wait as much longer for their first token,
//! and the running ones for the end of their answer. Later each of the N steps of its reply takes
//! longer by the slope s for each running request. A ms of an answer's end is worth w ms of a first
//! token: the objective. So an idle fleet minimises TTFT, which is GORGO's aim, and a busy one
//! minimises work, which is SkyWalker's, with no threshold between the two.
//!
//! Nothing is in units that an operator must choose: the machine measures t_p and s for each kind of
//! replica, N for each class of requests, and the trust that scales m if engines find less cached
//! than the index predicts. notes/price.md derives it, with an example.
//!
//! The copy that a prefill makes displaces as many cached tokens. They would be used again with the
//! chance r, the share of tokens in the region that are, and are then computed again. On an idle replica
//! it is the copy that is used again, by requests that would have waited elsewhere: there the prefill
//! costs t_p (p - m) (1 + q - r). Otherwise a system prompt that all requests share would stay on the
//! GPUs that cached it first, because each request alone is faster there, and other GPUs would stay idle.
//!
//! A replica is eligible if it has KV capacity and a slot for the request (admission `pending_kv`).
//! If a full one is cheaper than the best eligible one even with the time until it has capacity, the
//! request waits for it in the queue instead of spilling to a cold one (delay scheduling, Zaharia et
//! al. 2010). Near saturation this keeps long shared prefixes in place, instead of recomputing them
//! wherever capacity frees up. Peers are priced in `forwarding.rs`.

mod forwarding;
mod lanes;
mod pairs;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, Role};

use self::lanes::Figures;
use super::choose::Least;
use super::spec::TOTAL_BLOCKS;
use super::{Common, Features, Forward, Param, Pick, Policy, Spec, View};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::index::{Evict, IndexSpec, Insert};
use crate::row::Row;
use crate::target::Target;

pub(super) static SPEC: Spec = Spec {
    name: "meridian",
    summary: "least GPU time: own prefill and what is ahead, and the time that others lose by it",
    source: "Meridian; GORGO section 3.4, SkyWalker section 3.3, delay scheduling",
    params: &[
        Param::word(
            "objective",
            &["balanced", "whole_answer"],
            "what a ms of a whole answer is worth in ms of a first token: 0.035 or 0.1",
        ),
        Param::number(
            "rtt_weight",
            1.5,
            (0.0, 1000.0),
            "weight of the round trip to another region",
        ),
        Param::number_or(
            "credit_share",
            0.1,
            (0.0, 100.0),
            &["off"],
            "share of the KV tokens free at a peer's replicas that forwards may need between two of its digests; off: no bound",
        ),
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
            exchange: if p.is("objective", "whole_answer") { 0.1 } else { 0.035 },
            rtt_weight: p.f32("rtt_weight"),
            credit_share: p.number("credit_share").map(|share| share as f32),
        })
    },
};

/// How much more a running request's delay by a whole prompt counts where prefill replicas could compute
/// it: pools are there to keep the stream steady. Chosen of 1, 5, 15 and 30
/// (notes/decisions/steady-decode.md).
const STEADY: f32 = 5.0;
/// Tokens of a prompt that do not count so: engines compute as many in the same step as the running
/// requests' tokens, and no stream shows it.
const UNNOTICED: f32 = 512.0;
/// Replicas priced together.
const LANES: usize = 8;

struct Meridian {
    /// What a ms of a whole answer is worth in ms of a first token: w.
    exchange: f32,
    rtt_weight: f32,
    credit_share: Option<f32>,
}

impl Policy for Meridian {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        // Without a comparable price (NaN figures), any candidate will do.
        let best = self.least(view, view.eligible, draw);
        let (alone, replica) = best.unwrap_or((f32::INFINITY, view.eligible[0]));
        let pair = self.best_pair(view, draw).filter(|pair| pair.0 < alone);
        match self.worth_waiting(view, draw) < pair.map_or(alone, |pair| pair.0) {
            true => Pick::Wait,
            false => pair.map_or(Pick::scored(replica, f64::from(alone)), |(price, from, to)| {
                Pick::pair(from, to, f64::from(price), f64::from(alone))
            }),
        }
    }

    fn features(&self) -> Features {
        let (waits_for_room, may_sample, prices_pairs) = (true, true, true);
        Features { waits_for_room, may_sample, prices_pairs, forwarding: self.forwarding() }
    }

    fn forward(&self, view: &View<'_>, local: Option<&Pick>, draw: &mut Rng) -> Option<Forward> {
        self.forward_cheaper(view, local, draw)
    }

    fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&'static str, f64)> {
        let (row, price) = (&c.row, self.price(&of.common));
        if let Some(terms) = pair_terms(c, of, price) {
            return terms;
        }
        let (unmatched, running) =
            (c.prompt_tokens as f32 - c.matched_tokens * row.trust, row.running as f32);
        let prefill = row.ms_per_token * unmatched;
        // Negative at an idle replica, whose copy will be used again.
        let mut others = prefill * (price.prefill(running, row.front_tokens) - 1.0);
        if row.pool.pairs() && has_prefills(of) {
            others += row.ms_per_token * price.stall(running, unmatched);
        }
        let mut terms = vec![
            ("front_ms", f64::from(row.ms_per_token * row.front_tokens)),
            ("prefill_ms", f64::from(prefill)),
            ("others_ms", f64::from(others)),
            ("steps_ms", f64::from(price.reply * row.step_slope_ms * running)),
            ("rtt_ms", f64::from(self.rtt_weight * row.rtt_ms)),
        ];
        if c.loading_ms > 0.0 {
            terms.push(("load_ms", f64::from(c.loading_ms)));
        }
        terms
    }
}

/// The factors of the price that are the same for every candidate.
#[derive(Clone, Copy)]
struct Price {
    /// Prefill: on a replica at work, on an idle one, and more of it for each running request.
    busy: f32,
    idle: f32,
    /// Requests in the queue for each replica.
    queued: f32,
    /// On an idle prefill replica.
    unawaited: f32,
    delay: f32,
    /// A ms by which steps become longer, over the whole reply.
    reply: f32,
    rtt: f32,
}

impl Price {
    /// The price of a ms of unmatched prefill.
    #[inline(always)]
    fn prefill(&self, running: f32, front_tokens: f32) -> f32 {
        let idle = (running <= 0.0) & (front_tokens <= 0.0);
        if idle { self.idle } else { self.busy + self.delay * running }
    }

    /// Tokens that weigh as much as the stall of a decode replica's streams by a whole prompt, besides what
    /// it costs anywhere.
    #[inline(always)]
    fn stall(&self, running: f32, unmatched: f32) -> f32 {
        let noticed = if unmatched > UNNOTICED { unmatched - UNNOTICED } else { 0.0 };
        (STEADY - 1.0) * self.delay * running * noticed
    }
}

/// A prompt: its tokens, and those of a block.
#[derive(Clone, Copy)]
struct Prompt {
    tokens: f32,
    block: f32,
}

/// Whether a prefill replica could compute the prompt.
fn has_prefills(of: &Decision) -> bool {
    let is_open = |c: &CandidateRow| c.row.pool.role == Role::Prefill && c.ineligible.is_none();
    of.candidates.iter().any(is_open)
}

/// The terms of a candidate for the prefill leg, or of the replica that answers after one.
fn pair_terms(c: &CandidateRow, of: &Decision, price: Price) -> Option<Vec<(&'static str, f64)>> {
    let find = |id: ReplicaId| of.candidates.iter().find(|other| other.replica == id);
    let unmatched = |c: &CandidateRow| c.prompt_tokens as f32 - c.matched_tokens * c.row.trust;
    let missing = |c: &CandidateRow| c.prompt_tokens as f32 - c.matched_tokens;
    let is_picked = of.prefill.is_some()
        && of.pick.is_some_and(|(target, _)| target == Target::Replica(c.replica));
    let parts = match (c.row.pool.role, of.prefill.and_then(find)) {
        (Role::Prefill, _) => {
            let parts = price.pair((&c.row, unmatched(c)), (&Row::default(), 0.0), of.pace);
            let front = c.row.ms_per_token * c.row.front_tokens;
            return Some(vec![
                ("front_ms", f64::from(front)),
                ("prefill_ms", f64::from(parts.prefill - front)),
                ("others_ms", f64::from(parts.others)),
                ("rtt_ms", f64::from(parts.rtt)),
            ]);
        }
        (_, Some(from)) if is_picked => {
            price.pair((&from.row, unmatched(from)), (&c.row, missing(c)), of.pace)
        }
        _ => return None,
    };
    Some(vec![
        ("kv_ms", f64::from(parts.kv.max(parts.front - parts.prefill))),
        ("steps_ms", f64::from(parts.steps)),
        ("rtt_ms", f64::from(parts.rtt)),
    ])
}

impl Meridian {
    fn price(&self, common: &Common) -> Price {
        let awaited = 1.0 + common.queued;
        Price {
            busy: awaited + common.reused,
            idle: awaited - common.reused,
            queued: common.queued,
            unawaited: 1.0 - common.reused,
            delay: self.exchange,
            reply: self.exchange * common.reply_tokens,
            rtt: self.rtt_weight,
        }
    }

    /// The least price with which the request should wait for a full replica: with the time until
    /// it has capacity, for this request and its share of the queue. Infinite if the request may not
    /// wait, or if the replica has nothing of its prompt. A request from a peer does not wait: it would
    /// go back, and return.
    fn worth_waiting(&self, view: &View<'_>, draw: &mut Rng) -> f32 {
        if !view.may_wait || view.request.hops > 0 || view.full.is_empty() {
            return f32::INFINITY;
        }
        let wait = |id: ReplicaId| view.replicas.row(id).next_end_ms * (1.0 + view.common.queued);
        let Some((price, full)) = self.least(view, view.full, draw) else { return f32::INFINITY };
        if view.matched[full.index()] > 0 {
            return price + wait(full);
        }
        // Few have a part of a prompt that the cheapest one has nothing of.
        let matched = view.full.iter().filter(|id| view.matched[id.index()] > 0);
        let prices = matched.filter_map(|id| self.least(view, core::slice::from_ref(id), draw));
        let best = prices.min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(f32::INFINITY, |(price, id)| price + wait(id))
    }

    /// The least price among `ids` and its replica; `None` if `ids` is empty.
    fn least(
        &self,
        view: &View<'_>,
        ids: &[ReplicaId],
        draw: &mut Rng,
    ) -> Option<(f32, ReplicaId)> {
        match view.prefills.is_empty() {
            true => self.least_in::<false>(view, ids, draw),
            false => self.least_in::<true>(view, ids, draw),
        }
    }

    /// The same; `POOLS`: a prefill replica could compute the prompt, too.
    fn least_in<const POOLS: bool>(
        &self,
        view: &View<'_>,
        ids: &[ReplicaId],
        draw: &mut Rng,
    ) -> Option<(f32, ReplicaId)> {
        match (view.replicas.columns().far, view.loading.is_empty()) {
            (false, true) => self.least_of::<POOLS, false, false>(view, ids, draw),
            (true, true) => self.least_of::<POOLS, true, false>(view, ids, draw),
            (false, false) => self.least_of::<POOLS, false, true>(view, ids, draw),
            (true, false) => self.least_of::<POOLS, true, true>(view, ids, draw),
        }
    }

    fn least_of<const POOLS: bool, const FAR: bool, const LOADS: bool>(
        &self,
        view: &View<'_>,
        ids: &[ReplicaId],
        draw: &mut Rng,
    ) -> Option<(f32, ReplicaId)> {
        let request = view.request;
        let price = self.price(&view.common);
        let prompt = Prompt { tokens: request.prompt_tokens as f32, block: request.block_tokens };
        let mut least = Least::new();
        let mut low = f32::INFINITY;
        let (chunks, rest) = ids.as_chunks::<LANES>();
        for chunk in chunks {
            let prices =
                Figures::of::<POOLS, LOADS>(view, chunk).prices::<POOLS, FAR, LOADS>(price, prompt);
            // Few groups contain a new minimum; the others cost one comparison of all lanes.
            if prices.iter().fold(false, |any, p| any | (*p <= low)) {
                low = offer(&mut least, &prices, chunk, draw);
            }
        }
        for &r in rest {
            let price =
                Figures::of::<POOLS, LOADS>(view, &[r]).prices::<POOLS, FAR, LOADS>(price, prompt);
            offer(&mut least, &price, &[r], draw);
        }
        least.get()
    }
}

/// Offers several prices and returns the least so far. Kept out of the scan so that the scan
/// vectorises.
#[inline(never)]
fn offer(least: &mut Least<f32>, prices: &[f32], ids: &[ReplicaId], draw: &mut Rng) -> f32 {
    prices.iter().zip(ids).for_each(|(p, r)| least.offer(*p, *r, draw));
    least.get().map_or(f32::INFINITY, |l| l.0)
}
