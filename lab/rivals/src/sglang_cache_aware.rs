//! SGLang's router: follow the prefix while loads are even, else the shortest queue.
//!
//! The rule of sglang-router 0.3.2 with the defaults of its command line, and of its descendants
//! vllm-router 0.1.17 and smg 1.13.0. `tests/all/reference.rs` replays recorded choices of all three. A
//! match above 30 % of the prompt is followed; with a shorter one the request goes to the least
//! loaded. The parameter `spill` sets the behaviour when loads are uneven:
//!
//! - `fleet` (sglang-router, vllm-router): when the most and least loaded differ by more than 64
//!   and by more than 1.5 times, the least loaded takes every request. On a tie it is always the
//!   first of the list.
//! - `match` (smg): only a matched replica that is above the mean by both thresholds is skipped, in
//!   favour of the least loaded of those that are not. The absolute threshold is at most twice the
//!   standard deviation of a count with that mean (rounded up, and at least 4). Ties are drawn.
//!
//! Among several replicas with the longest match, sglang-router takes the one that had its last
//! piece first, since its tree remembers which replica added a node; smg and vllm-router take any.
//! Versions up to 2025 sent a request without a match to the smallest tree (`miss`).
//!
//! In front of pools the rule picks the prefill replica, and the decode replica too, or the less
//! loaded of two drawn ones (`decode`), as smg's documentation has it.
//!
//! Deliberately otherwise: their trees hold characters (vllm-router's hold the tokens that an
//! engine makes of the prompt; without such an engine it matches nothing), ours blocks of 64 bytes,
//! so a match is up to 63 bytes short. Theirs are trimmed every 120 s and keep a removed replica
//! until then; ours never exceed their size and drop a removed replica at once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{ReplicaId, Rng};
use meridian_routing::policy::{
    self, Param, Params, Pick, Policy, Spec, TOTAL_BLOCKS, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Evict, IndexSpec, Insert, Why};

/// Smallest cap on the absolute threshold of `spill: match`.
const LEAST_SWING: f64 = 4.0;
const BLOCK_BYTES: usize = 64;

pub(crate) static SPEC: Spec = Spec {
    name: "sglang_cache_aware",
    summary: "prefix match above 30 % while loads are even, else the least loaded",
    source: "sglang-router 0.3.2, policies/cache_aware.rs, defaults of its CLI",
    params: &[
        Param::number(
            "cache_threshold",
            0.3,
            (0.0, 1.0),
            "share of the prompt that must be exceeded for the match to be followed",
        ),
        Param::number(
            "balance_abs_threshold",
            64.0,
            (0.0, 1e6),
            "difference of outstanding requests above which loads are uneven",
        ),
        Param::number(
            "balance_rel_threshold",
            1.5,
            (1.0, 1e6),
            "quotient of outstanding requests above which loads are uneven",
        ),
        Param::number(
            "max_tree_size",
            67_108_864.0,
            (65536.0, 268_435_456.0),
            "bytes of prompts remembered of a replica",
        ),
        Param::word(
            "spill",
            &["fleet", "match"],
            "fleet: uneven loads send all to the least loaded; match: a hot match is passed over",
        ),
        Param::word(
            "miss",
            &["least_load", "smallest_tree"],
            "who takes a prompt that matches nowhere",
        ),
        Param::word(
            "decode",
            &["cache_aware", "power_of_two"],
            "the rule for decode replicas of pools",
        ),
    ],
    admission: Admission::Blind,
    index: |p| {
        Some(IndexSpec {
            block_bytes: BLOCK_BYTES,
            per_target_blocks: Some(p.count("max_tree_size") as usize / BLOCK_BYTES),
            total_blocks: TOTAL_BLOCKS,
            evict: Evict::LeastRecent,
            insert: Insert::OnDispatch,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(CacheAware {
            threshold: p.f32("cache_threshold"),
            abs: p.number("balance_abs_threshold").expect("the parameter takes no words"),
            rel: p.f32("balance_rel_threshold"),
            spill_match: p.is("spill", "match"),
            smallest_tree: p.is("miss", "smallest_tree"),
            decode: p.is("decode", "power_of_two").then(power_of_two),
        })
    },
};

struct CacheAware {
    threshold: f32,
    abs: f64,
    rel: f32,
    spill_match: bool,
    smallest_tree: bool,
    /// The rule for decode replicas, if it is another one.
    decode: Option<Box<dyn Policy>>,
}

impl Policy for CacheAware {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        if let Some(decode) = &self.decode
            && view.replicas.row(view.eligible[0]).pool.pairs()
        {
            return decode.pick(view, draw);
        }
        let load = |r: &ReplicaId| view.replicas.row(*r).outstanding;
        if !self.spill_match && self.uneven(view) {
            return Pick::unscored(first_least(view), Why::Imbalance);
        }
        let longest = self.longest(view, draw);
        if view.match_ratio(longest) <= self.threshold {
            return Pick::unscored(self.miss(view, draw), Why::NoMatch);
        }
        if !self.spill_match {
            return Pick::unscored(longest, choose::longest(view, longest));
        }
        let sum: u64 = view.eligible.iter().map(|r| u64::from(load(r))).sum();
        let mean = sum as f64 / view.eligible.len() as f64;
        if !self.hot(load(&longest), mean) {
            return Pick::unscored(longest, choose::longest(view, longest));
        }
        let mut least = Least::new();
        for &r in view.eligible.iter().filter(|r| !self.hot(load(r), mean)) {
            least.offer(load(&r), r, draw);
        }
        // Some replica is at or below the mean, and so is not hot.
        let to = least.get().map_or(longest, |(_, r)| r);
        let (tokens, best) = (view.matched_tokens(to) as u32, view.matched_tokens(longest) as u32);
        Pick::unscored(to, Why::Spilled { tokens, best })
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        choose::match_and_load(c)
    }
}

impl CacheAware {
    /// Whether loads differ by more than both thresholds.
    fn uneven(&self, view: &View<'_>) -> bool {
        let loads = view.eligible.iter().map(|&r| view.replicas.row(r).outstanding);
        let (min, max) = loads.fold((u32::MAX, 0), |(min, max), n| (min.min(n), max.max(n)));
        f64::from(max - min) > self.abs && max as f32 > self.rel * min as f32
    }

    /// Whether a load is above the mean by both thresholds.
    fn hot(&self, load: u32, mean: f64) -> bool {
        let swing = libm::ceil(2.0 * libm::sqrt(mean)).max(LEAST_SWING);
        let load = f64::from(load);
        load > mean * f64::from(self.rel) && load > mean + self.abs.min(swing)
    }

    /// The replica with the longest match. On a tie, the one that had its last block first if trees
    /// remember that, otherwise a drawn one.
    fn longest(&self, view: &View<'_>, draw: &mut Rng) -> ReplicaId {
        let mut longest = Least::new();
        for &r in view.eligible {
            longest.offer(Reverse(view.matched[r.index()]), r, draw);
        }
        let (Reverse(depth), drawn) = longest.get().expect("a view has at least one candidate");
        if self.spill_match {
            return drawn;
        }
        let matched = view.request.blocks.get(..depth as usize);
        let first = matched.and_then(|chain| view.index?.first_holder(chain)).map(ReplicaId);
        first.filter(|r| view.is_eligible(*r)).unwrap_or(drawn)
    }

    /// The replica that takes a request without a match.
    fn miss(&self, view: &View<'_>, draw: &mut Rng) -> ReplicaId {
        match view.index.filter(|_| self.smallest_tree) {
            Some(index) => {
                let smallest = view.eligible.iter().min_by_key(|r| index.held_by(r.0));
                *smallest.unwrap_or(&view.eligible[0])
            }
            None if self.spill_match => choose::least_outstanding(view, draw).1,
            None => first_least(view),
        }
    }
}

/// The product's p2c, with its default figure of load: KV use.
fn power_of_two() -> Box<dyn Policy> {
    let p2c = policy::find("p2c").expect("routing has it");
    (p2c.build)(&Params::defaults(p2c))
}

/// The first of the least loaded.
fn first_least(view: &View<'_>) -> ReplicaId {
    let load = |r: &&ReplicaId| view.replicas.row(**r).outstanding;
    *view.eligible.iter().min_by_key(load).unwrap_or(&view.eligible[0])
}
