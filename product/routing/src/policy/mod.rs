//! Policies: the rules that choose between replicas.
//!
//! A policy is one file here and one line in [`ALL`]; the config schema, the CLI's list, the
//! simulator's sweep and the documentation follow from that line. It reads the eligible candidates
//! and their rows, picks one, and gives a reason. It keeps only the state that its own rule needs
//! (a rotation counter, a ring); the machine tracks load, prefixes and eligibility.
//!
//! The machine knows a policy by its [`Spec`] only, so a policy may also be in a crate of its own.
//! The policies of other routers are (`meridian-rivals`). Such a crate implements [`Policy`]. It reads
//! the [`View`], and returns a [`Pick`] or a [`Forward`]; [`Features`] say what else it needs of the
//! machine. [`choose`] has the scans that most rules consist of.

pub mod choose;
mod chwbl;
mod consistent_hash;
mod expression;
mod forwarding;
mod least_outstanding;
mod meridian;
mod p2c;
mod pick;
mod random;
mod round_robin;
mod rule;
mod spec;
mod view;

pub use expression::{FIGURES, FUNCTIONS, Figure, Known};
pub use forwarding::{Forwarding, Looks};
pub use pick::{Chosen, Forward, Pick};
pub use rule::{Dispatched, Features, Policy, PolicyEvent};
pub use spec::{Check, Given, Param, ParamError, Params, Spec, TOTAL_BLOCKS, TextError, Value};
pub use view::View;

pub use crate::common::Common;

/// Every policy of this crate, the default first.
pub static ALL: &[&Spec] = &[
    &meridian::SPEC,
    &random::SPEC,
    &round_robin::SPEC,
    &least_outstanding::SPEC,
    &p2c::SPEC,
    &consistent_hash::SPEC,
    &chwbl::SPEC,
    &expression::SPEC,
];

/// The policy of this crate called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|s| s.name == name).copied()
}
