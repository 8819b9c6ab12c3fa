//! Policies: the rules that choose between replicas.
//!
//! A policy is one file here and one line in [`ALL`]; the config schema, the CLI's list, the
//! simulator's sweep and the documentation follow from that line. It reads the eligible candidates
//! and their rows, picks one, and gives a reason. It keeps only the state that its own rule needs
//! (a rotation counter, a ring); the machine tracks load, prefixes and eligibility.

mod active_blocks;
mod aibrix_prefix;
mod choose;
mod chwbl;
mod consistent_hash;
mod dynamo_kv;
mod expression;
mod forwarding;
mod gorgo;
mod least_outstanding;
mod llmd_default;
mod meridian;
mod p2c;
mod pick;
mod preble;
mod prefix_aware;
mod prefix_trie;
mod random;
mod round_robin;
mod rule;
mod saturation;
mod sglang_cache_aware;
mod skywalker;
mod skywalker_ch;
mod skywalker_steal;
mod spec;
mod stargate_wait_and_widen;
mod view;
mod window;

pub use expression::{FIGURES, FUNCTIONS, Figure, Known};
pub use forwarding::Forwarding;
pub use pick::{Chosen, Forward, Pick};
pub use rule::{Dispatched, Policy};
pub use spec::{Check, Given, Param, ParamError, Params, Spec, TextError, Value};
pub use view::{Common, View};

/// Every policy, in the order the CLI lists them.
pub static ALL: &[&Spec] = &[
    &meridian::SPEC,
    &random::SPEC,
    &round_robin::SPEC,
    &least_outstanding::SPEC,
    &p2c::SPEC,
    &consistent_hash::SPEC,
    &chwbl::SPEC,
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
    &llmd_default::SPEC,
    &stargate_wait_and_widen::SPEC,
    &expression::SPEC,
];

/// The policy called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|s| s.name == name).copied()
}
