//! SkyWalker with work stealing: as `skywalker`, and an idle region asks busy ones for work.
//!
//! The published system pushes: a full region forwards requests that it can't place. This variant
//! also pulls: a region with an empty queue and replicas with free capacity asks the nearest region
//! whose queue is longer than 10 for as many requests as it has such replicas. Each peer is asked
//! once per digest, so one long queue is not asked twice because of a stale digest.
//!
//! Everything but the bound is the same as in `skywalker`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Rng;
use meridian_routing::policy::{Features, Forward, Forwarding, Param, Pick, Policy, Spec, View};
use meridian_routing::{Admission, CandidateRow, Decision};

use crate::skywalker::{MATCH_RATIO, MAX_TREE_BYTES, Skywalker, trie};

pub(crate) static SPEC: Spec = Spec {
    name: "skywalker_steal",
    summary: "as skywalker; an idle region asks the nearest long queue for held requests",
    source: "SkyWalker sections 3.2-3.3, with work stealing",
    params: &[
        MATCH_RATIO,
        MAX_TREE_BYTES,
        Param::number(
            "steal_above",
            10.0,
            (0.0, 1e6),
            "requests held at a peer beyond which an idle region asks for some",
        ),
    ],
    admission: Admission::Pending,
    index: trie,
    head_bytes: |_| 0,
    build: |p| Box::new(SkywalkerSteal { rule: Skywalker::of(p), above: p.count("steal_above") }),
};

struct SkywalkerSteal {
    rule: Skywalker,
    above: u32,
}

impl Policy for SkywalkerSteal {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        self.rule.pick(view, draw)
    }

    fn features(&self) -> Features {
        let steals_above = Some(self.above);
        let forwarding = Forwarding { steals_above, ..Forwarding::default() };
        Features { forwarding, ..Features::default() }
    }

    fn forward(&self, view: &View<'_>, local: Option<&Pick>, draw: &mut Rng) -> Option<Forward> {
        self.rule.forward(view, local, draw)
    }

    fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&str, f64)> {
        self.rule.terms(c, of)
    }
}
