//! LMetric: tokens to prefill times requests, without a parameter.
//!
//! LMetric (Zhang et al., OSDI 2026, arXiv 2603.15202, section 5 and Figure 17; `lmetric-q` of its
//! code, blitz-serving/blitz-router):
//!
//! ```text
//! score = (prefill tokens in front + prompt - matched) * (requests there + 1)         least wins
//! ```
//!
//! A product of two figures orders replicas as their weighed sum would, but any weight cancels. The
//! requests are those running and waiting. Where the whole prompt is cached and nothing is in front the
//! score is 0 whatever the load, so there is at least one token to prefill. Ties are drawn.
//!
//! Deliberately otherwise: its engines tell the router which blocks they evict. Here a replica
//! remembers what was sent to it, as much as its KV cache holds. Section 5.2's detector of hot prefixes
//! is left out: it is an alarm for traffic that the authors met once, and takes replicas out of the
//! choice for a while.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::Rng;
use meridian_routing::policy::{Pick, Policy, Spec, View, choose::Least};
use meridian_routing::{Admission, CandidateRow, Decision, Row};

use crate::kv_index;

pub(crate) static SPEC: Spec = Spec {
    name: "lmetric",
    summary: "least product of tokens to prefill and requests",
    source: "LMetric, OSDI 2026, arXiv 2603.15202, Figure 17",
    params: &[],
    admission: Admission::Blind,
    index: kv_index::index,
    head_bytes: |_| 0,
    build: |_| Box::new(LMetric),
};

struct LMetric;

impl Policy for LMetric {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let mut least = Least::new();
        for &r in view.eligible {
            let matched = view.matched_tokens(r);
            let score = score(view.replicas.row(r), view.request.prompt_tokens, matched);
            least.offer(score, r, draw);
        }
        let (score, replica) = least.get().expect("a view has at least one candidate");
        Pick::scored(replica, f64::from(score))
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![("tokens_times_requests", f64::from(score(&c.row, c.prompt_tokens, c.matched_tokens)))]
    }
}

#[inline]
fn score(row: &Row, prompt: u32, matched: f32) -> f32 {
    let tokens = (row.front_tokens + prompt as f32 - matched).max(1.0);
    tokens * (row.outstanding + 1) as f32
}
