//! Consistent hashing with bounded loads over the first characters of the prompt.
//!
//! KubeAI's `PrefixHash` strategy (`api/k8s/v1/model_types.go`): the key is the model and the first
//! 100 characters, the ring has 256 virtual nodes a replica, and a replica is skipped while one
//! more request would put it above 125 % of the mean. The bound is Mirrokni, Thorup and
//! Zadimoghaddam's. Prompts with the same first characters share a replica until it is hot; the
//! rest of the prompt is ignored.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Rng, mix};

use super::{Param, Pick, Policy, PolicyEvent, Spec, View, choose};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::ring::Ring;

pub(super) static SPEC: Spec = Spec {
    name: "chwbl",
    summary: "hash of the prompt's head on a ring, passing over replicas above the mean load",
    source: "KubeAI, api/k8s/v1/model_types.go, strategy PrefixHash",
    params: &[
        Param::number(
            "virtual_nodes",
            256.0,
            (1.0, 4096.0),
            "virtual nodes of a replica of weight 1",
        ),
        Param::number(
            "load_factor",
            1.25,
            (1.0, 100.0),
            "most load of a replica, as a multiple of the mean",
        ),
        Param::number("head_bytes", 100.0, (1.0, 65536.0), "bytes of the prompt that are hashed"),
    ],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |p| p.count("head_bytes") as usize,
    build: |p| {
        Box::new(Chwbl {
            vnodes: p.count("virtual_nodes"),
            factor: p.number("load_factor").expect("the parameter takes no words"),
            ring: Ring::new(&[], 1),
        })
    },
};

struct Chwbl {
    vnodes: u32,
    factor: f64,
    ring: Ring,
}

impl Policy for Chwbl {
    fn pick(&self, view: &View<'_>, _draw: &mut Rng) -> Pick {
        let load = |r| u64::from(view.replicas.row(r).outstanding);
        let total: u64 = view.eligible.iter().map(|&r| load(r)).sum();
        // load + 1 <= factor * (total + 1) / n: both ones represent the request being placed. With
        // no load, no replica is above the mean.
        let bound = self.factor * (total + 1) as f64 / view.eligible.len() as f64;
        let key = mix(view.request.head, u64::from(view.request.model.0));
        let (replica, why) =
            choose::along(&self.ring, key, view, |r| total == 0 || (load(r) + 1) as f64 <= bound);
        Pick::unscored(replica, why)
    }

    fn terms(&self, c: &CandidateRow, _: &Decision) -> Vec<(&'static str, f64)> {
        vec![("outstanding", f64::from(c.row.outstanding))]
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        if let PolicyEvent::Replicas(replicas) = event {
            self.ring = Ring::new(&choose::members(replicas), self.vnodes);
        }
    }
}
