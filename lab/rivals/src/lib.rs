//! The routing policies of other routers, as their code and papers have them.
//!
//! Each file has one rule, its source, and what is deliberately otherwise here. The routing machine
//! runs them like its own: a rule is a [`Spec`] with a
//! [`Policy`](meridian_routing::policy::Policy). They are here to be compared with: in simulations,
//! in measurements, and in a gateway, whose shadow policy may be one of them. The packages of
//! `meridian` have them (its feature `rivals`). `tests/reference` has recorded choices of the real
//! routers, with which the tests compare these.
//!
//! Not here: rules that belong to no particular router, such as round robin and consistent hashing. They
//! are in `meridian_routing::policy`, beside the default.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod active_blocks;
mod aibrix_prefix;
mod dualmap;
mod dynamo_kv;
mod gorgo;
mod hot;
mod kv_index;
mod llmd;
mod llmd_affinity;
mod llmd_blend;
mod llmd_predicted;
mod llmd_sticky;
mod lmetric;
mod no_hit_lru;
mod preble;
mod prefix_aware;
mod prefix_trie;
mod saturation;
mod sglang_cache_aware;
mod skywalker;
mod skywalker_ch;
mod skywalker_steal;
mod smg_least_load;
mod stargate_wait_and_widen;
mod weighted;
mod window;

use meridian_routing::policy::{self, Spec};

/// Every policy of this crate.
pub static ALL: &[&Spec] = &[
    &prefix_aware::SPEC,
    &prefix_trie::SPEC,
    &sglang_cache_aware::SPEC,
    &skywalker::SPEC,
    &skywalker_ch::SPEC,
    &skywalker_steal::SPEC,
    &gorgo::SPEC,
    &preble::SPEC,
    &aibrix_prefix::SPEC,
    &dynamo_kv::SPEC,
    &llmd_blend::SPEC,
    &no_hit_lru::SPEC,
    &llmd_sticky::SPEC,
    &llmd_predicted::SPEC,
    &lmetric::SPEC,
    &dualmap::SPEC,
    &smg_least_load::SPEC,
    &stargate_wait_and_widen::SPEC,
];

/// Every policy of this crate and of the routing machine, in the order of lists. Seeds of simulated
/// worlds choose policies by their place here.
pub static EVERY: &[&Spec] = &every();

/// The machine's own policies that stand before those of other routers; the rest follows them.
const BEFORE: usize = 7;

const fn every() -> [&'static Spec; policy::ALL.len() + ALL.len()] {
    let mut every = [policy::ALL[0]; policy::ALL.len() + ALL.len()];
    let mut at = 0;
    while at < every.len() {
        every[at] = if at < BEFORE {
            policy::ALL[at]
        } else if at < BEFORE + ALL.len() {
            ALL[at - BEFORE]
        } else {
            policy::ALL[at - ALL.len()]
        };
        at += 1;
    }
    every
}

/// The policy called `name`, here or in the routing machine.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    EVERY.iter().find(|spec| spec.name == name).copied()
}
