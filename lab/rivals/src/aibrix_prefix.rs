//! AIBrix's `prefix-cache`: the best match that is not too far above the mean load.
//!
//! `pkg/plugins/gateway/algorithms/prefix_cache.go` of AIBrix. When the most and least loaded
//! differ by more than 8, the least loaded takes it. Otherwise replicas that match are ordered by
//! matched percent, then by running requests, and the first within mean + 1 standard deviation
//! takes it; the mean is over all candidates. If nothing matches, or no match is within the bound,
//! the least loaded takes it.
//!
//! Code and documents differ: the code's defaults are 8 and 1 and a block of 4 bytes, the README
//! and the Helm chart say 16 and 2 and 128. The rule's constants here are the code's; the block is
//! the documents', since no deployment uses 4 bytes per hash. "Running" is AIBrix's own count of
//! requests that have not ended, so it is our outstanding. Its table holds 200,000 blocks; ours
//! counts a block once for each replica that holds it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::Rng;
use meridian_routing::policy::{
    Param, Pick, Policy, Spec, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Evict, IndexSpec, Insert, Why};

pub(crate) static SPEC: Spec = Spec {
    name: "aibrix_prefix",
    summary: "best prefix match within a standard deviation of the mean load",
    source: "AIBrix, pkg/plugins/gateway/algorithms/prefix_cache.go",
    params: &[
        Param::number(
            "imbalance",
            8.0,
            (0.0, 1e6),
            "difference of running requests above which prefixes are ignored (README: 16)",
        ),
        Param::number(
            "deviations",
            1.0,
            (0.0, 100.0),
            "standard deviations above the mean that a match may be loaded (README: 2)",
        ),
        Param::number("block_bytes", 128.0, (4.0, 65536.0), "bytes of a block (code: 4)"),
        Param::number("blocks", 200_000.0, (1.0, 4_194_304.0), "blocks remembered in all"),
    ],
    admission: Admission::Blind,
    index: |p| {
        let blocks = p.count("blocks") as usize;
        Some(IndexSpec {
            block_bytes: p.count("block_bytes") as usize,
            per_target_blocks: Some(blocks),
            total_blocks: blocks,
            evict: Evict::LeastRecent,
            insert: Insert::OnDispatch,
            ttl: None,
        })
    },
    head_bytes: |_| 0,
    build: |p| {
        Box::new(AibrixPrefix {
            imbalance: p.count("imbalance"),
            deviations: p.number("deviations").expect("the parameter takes no words"),
        })
    },
};

struct AibrixPrefix {
    imbalance: u32,
    deviations: f64,
}

impl Policy for AibrixPrefix {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let (mut min, mut max, mut sum, mut squares) = (u32::MAX, 0, 0.0, 0.0);
        for &r in view.eligible {
            let load = view.replicas.row(r).outstanding;
            (min, max) = (min.min(load), max.max(load));
            sum += f64::from(load);
            squares += f64::from(load) * f64::from(load);
        }
        if max - min > self.imbalance {
            return Pick::unscored(choose::least_outstanding(view, draw).1, Why::Imbalance);
        }
        let n = view.eligible.len() as f64;
        let mean = sum / n;
        let bound = mean + self.deviations * libm::sqrt((squares / n - mean * mean).max(0.0));
        // The first in order within the bound is the least of those within it.
        let (mut within, mut best) = (Least::new(), 0);
        for &r in view.eligible {
            let percent = (view.match_ratio(r) * 100.0) as u32;
            best = best.max(percent);
            let load = view.replicas.row(r).outstanding;
            if view.matched[r.index()] > 0 && f64::from(load) <= bound {
                within.offer((Reverse(percent), load), r, draw);
            }
        }
        match within.get() {
            Some(((Reverse(percent), _), r)) if percent == best => {
                Pick::unscored(r, choose::longest(view, r))
            }
            Some((_, r)) => {
                let best = best as f32 / 100.0 * view.request.prompt_tokens as f32;
                let tokens = view.matched_tokens(r) as u32;
                Pick::unscored(r, Why::Spilled { tokens, best: best as u32 })
            }
            None => Pick::unscored(choose::least_outstanding(view, draw).1, Why::NoMatch),
        }
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        choose::match_and_load(c)
    }
}
