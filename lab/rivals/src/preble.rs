//! AIBrix's simplification of Preble's E2 (exploit or explore), not Preble itself.
//!
//! Preble (Srivatsa et al., 2024) and `prefix_cache_preble.go` of AIBrix. If more than half of the
//! prompt is cached, exploit: of the replicas with the longest match, pick the one that received
//! the fewest requests in the last 3 minutes. Otherwise explore: pick the replica with the least
//! cost of work in those 3 minutes. A request costs its unmatched prefill plus 45 tokens of decode.
//!
//! AIBrix prices prefill with curves fitted for Mistral-7B on A6000 and V100 and decode at 0.15 s a
//! token; here prefill takes the replica's calibrated speed. It charges a shared tree node's cost
//! to every replica that holds it; here a request is charged to the replica that served it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::Rng;
use meridian_routing::policy::{
    Param, Pick, Policy, PolicyEvent, Spec, View,
    choose::{self, Least},
};
use meridian_routing::{Admission, CandidateRow, Decision, Why};

use crate::kv_index;
use crate::window::Window;

pub(crate) static SPEC: Spec = Spec {
    name: "preble",
    summary: "AIBrix's simplification of Preble: longest match when most of the prompt is cached, else \
              least recent work",
    source: "AIBrix, algorithms/prefix_cache_preble.go, after Preble (2024)",
    params: &[
        Param::number(
            "match_ratio",
            0.5,
            (0.0, 1.0),
            "share of the prompt that must be exceeded for the match to be exploited",
        ),
        Param::number("window_s", 180.0, (1.0, 86400.0), "seconds of work that count"),
        Param::number("decode_tokens", 45.0, (0.0, 1e6), "tokens a request is taken to generate"),
        Param::number("decode_ms", 150.0, (0.0, 1e6), "ms a generated token is taken to cost"),
    ],
    admission: Admission::Blind,
    index: kv_index::index,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(Preble {
            match_ratio: p.f32("match_ratio"),
            decode_ms: p.f32("decode_tokens") * p.f32("decode_ms"),
            window: Window::new(p.seconds("window_s")),
        })
    },
};

struct Preble {
    match_ratio: f32,
    decode_ms: f32,
    window: Window,
}

impl Policy for Preble {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let longest = view.eligible.iter().map(|r| view.matched[r.index()]).max().unwrap_or(0);
        let (mut exploit, mut explore) = (Least::new(), Least::new());
        for &r in view.eligible {
            let work = self.window.sum(view.now, r);
            explore.offer(work.cost_ms, r, draw);
            if view.matched[r.index()] == longest {
                exploit.offer(work.requests, r, draw);
            }
        }
        let (_, best) = exploit.get().expect("a view has at least one candidate");
        let (replica, why) = match view.match_ratio(best) > self.match_ratio {
            true => (best, choose::longest(view, best)),
            false => (explore.get().map_or(best, |e| e.1), Why::NoMatch),
        };
        Pick::unscored(replica, why)
    }

    fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&'static str, f64)> {
        let work = self.window.sum(of.at, c.replica);
        vec![
            ("matched_tokens", f64::from(c.matched_tokens)),
            ("recent_requests", f64::from(work.requests)),
            ("recent_cost_ms", f64::from(work.cost_ms)),
        ]
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Dispatched(sent) => {
                self.window.add(sent.at, sent.replica, sent.prefill_ms + self.decode_ms);
            }
            PolicyEvent::Replicas(replicas) => self.window.keep(replicas.ids()),
            _ => {}
        }
    }
}
