//! DualMap: two replicas for each prefix, the one that has more of it unless it is too late there.
//!
//! DualMap (Yuan et al., ICLR 2026, arXiv 2602.06502, section 3). Two hashes of the prompt's first
//! blocks name two candidates. The one with more of the prompt cached takes the request if its first
//! token is expected within the objective, 5 s in the paper; otherwise, and if both have as much, the
//! one with less prefill in front does.
//!
//! ```text
//! TTFT = t_p (prefill tokens in front + prompt - matched)
//! ```
//!
//! A prefix is hot if it begins more than 2 / n of the last requests, for n candidates: then twice as
//! many blocks are hashed, up to seven times, so that its requests spread over more pairs. The first
//! length (64 tokens) and the number of requests that are remembered (1,000) are those of the port to
//! Dynamo (ai-dynamo/dynamo#15450), as is the rendezvous hashing where the paper has two rings. A prompt
//! shorter than that goes where the least prefill is in front.
//!
//! Deliberately otherwise: the paper moves queued requests within their pair when a replica becomes a
//! hot spot. Requests are placed once here, as in that port.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, mix};
use meridian_routing::policy::{
    Param, Pick, Policy, PolicyEvent, Spec, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Row, Why};

use crate::hot::Hot;
use crate::kv_index;

/// Tells the two hashes apart.
const FIRST: u64 = 1;
const SECOND: u64 = 2;

pub(crate) static SPEC: Spec = Spec {
    name: "dualmap",
    summary: "of two replicas by hashes of the prefix the one that has more of it, within an objective",
    source: "DualMap, ICLR 2026, arXiv 2602.06502, section 3; ai-dynamo/dynamo#15450",
    params: &[
        Param::number("slo_ms", 5000.0, (1.0, 1e7), "TTFT above which the load decides, ms"),
        Param::number(
            "hash_blocks",
            4.0,
            (1.0, 4096.0),
            "64-byte blocks of a prompt that are hashed, if they are not hot",
        ),
        Param::number("window", 1000.0, (1.0, 100_000.0), "requests that make a prefix hot"),
    ],
    admission: Admission::Blind,
    index: kv_index::index,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(DualMap {
            slo_ms: p.f32("slo_ms"),
            hot: Hot::new(p.count("hash_blocks") as usize, p.count("window") as usize),
        })
    },
};

struct DualMap {
    slo_ms: f32,
    hot: Hot,
}

impl Policy for DualMap {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let key = self.hot.key(&view.request.blocks, view.eligible.len());
        let pair = key.and_then(|key| pair(view.eligible, key));
        let Some([first, second]) = pair else {
            return least_ahead(view, view.eligible, draw);
        };
        let matched = |r: ReplicaId| view.matched[r.index()];
        let warm = if matched(second) > matched(first) { second } else { first };
        if matched(first) == matched(second) {
            return least_ahead(view, &[first, second], draw);
        }
        let prompt = view.request.prompt_tokens;
        match ttft_ms(view.replicas.row(warm), prompt, view.matched_tokens(warm)) > self.slo_ms {
            true => least_ahead(view, &[first, second], draw),
            false => Pick::unscored(warm, choose::longest(view, warm)),
        }
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![
            ("matched_tokens", f64::from(c.matched_tokens)),
            ("front_tokens", f64::from(c.row.front_tokens)),
            ("ttft_ms", f64::from(ttft_ms(&c.row, c.prompt_tokens, c.matched_tokens))),
        ]
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        if let PolicyEvent::Dispatched(sent) = event {
            self.hot.count(&sent.request.blocks);
        }
    }
}

fn ttft_ms(row: &Row, prompt: u32, matched: f32) -> f32 {
    row.ms_per_token * (row.front_tokens + prompt as f32 - matched)
}

/// The two candidates of a key; `None` if there is only one.
fn pair(candidates: &[ReplicaId], key: u64) -> Option<[ReplicaId; 2]> {
    let weight = |r: &ReplicaId, hash: u64| mix(mix(key, u64::from(r.0)), hash);
    let first = *candidates.iter().max_by_key(|r| weight(r, FIRST))?;
    let others = candidates.iter().filter(|r| **r != first);
    let second = *others.max_by_key(|r| weight(r, SECOND))?;
    Some([first, second])
}

/// The one of `candidates` with the least prefill in front.
fn least_ahead(view: &View<'_>, candidates: &[ReplicaId], draw: &mut Rng) -> Pick {
    let mut least = Least::new();
    for &r in candidates {
        least.offer(view.replicas.row(r).front_tokens, r, draw);
    }
    let (tokens, replica) = least.get().expect("there is at least one candidate");
    Pick::unscored(replica, Why::LeastLoaded(f64::from(tokens)))
}
