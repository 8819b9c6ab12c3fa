//! smg's `least_load`: time to drain the queued tokens, and a barrier before full KV.
//!
//! `model_gateway/src/policies/least_load.rs` of smg at 73da68ca (August 2026):
//!
//! ```text
//! score = queued tokens / throughput + 0.15 s * k / (1 - k)                           least wins
//! ```
//!
//! k is the share of KV in use, at most 0.999. smg takes 2,000 tokens a second for an engine that does
//! not report its rate. Prefixes play no part, except that cached tokens are not queued.
//!
//! Deliberately otherwise: smg polls loads every 10 s and adds the tokens that it has sent since. Here
//! the queue is what own dispatches without a first token have left to prefill, and KV use is as fresh
//! as the probes. So this rule knows more than smg's. Its rate is one constant for all replicas. The
//! first of equals is taken there, any here.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::Rng;
use meridian_routing::policy::{Param, Pick, Policy, Spec, View, choose::Least};
use meridian_routing::{Admission, CandidateRow, Decision, Row};

use crate::kv_index;

/// The most KV use that counts.
const MOST_USED: f32 = 0.999;

pub(crate) static SPEC: Spec = Spec {
    name: "smg_least_load",
    summary: "least time to drain the queued tokens, with a barrier before full KV",
    source: "smg at 73da68ca (August 2026), policies/least_load.rs",
    params: &[
        Param::number(
            "kv_pressure_weight",
            0.15,
            (0.0, 1000.0),
            "seconds that a replica with half of its KV in use costs",
        ),
        Param::number(
            "throughput",
            2000.0,
            (1.0, 1e7),
            "tokens a second by which a replica drains its queue",
        ),
    ],
    admission: Admission::Blind,
    // No match is read, but the queued tokens are those that are not cached.
    index: kv_index::index,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(LeastLoad {
            barrier: p.f32("kv_pressure_weight"),
            throughput: p.f32("throughput"),
        })
    },
};

struct LeastLoad {
    barrier: f32,
    throughput: f32,
}

impl Policy for LeastLoad {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut least = Least::new();
        for &r in view.eligible {
            let row = view.replicas.row(r);
            least.offer(self.drain_s(row) + self.barrier_s(row), r, draw);
        }
        let (score, replica) = least.get().expect("a view has at least one candidate");
        Pick::scored(replica, f64::from(score))
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![
            ("drain_s", f64::from(self.drain_s(&c.row))),
            ("kv_s", f64::from(self.barrier_s(&c.row))),
        ]
    }
}

impl LeastLoad {
    #[inline]
    fn drain_s(&self, row: &Row) -> f32 {
        row.front_tokens / self.throughput
    }

    #[inline]
    fn barrier_s(&self, row: &Row) -> f32 {
        let used = row.kv_used.clamp(0.0, MOST_USED);
        self.barrier * used / (1.0 - used)
    }
}
