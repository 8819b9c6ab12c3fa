//! How finely the policy and its shadow look at a prompt: what their indexes need of a request.

use meridian_routing::policy::{Params, Spec};
use meridian_routing::{IndexSpec, Insert};

use crate::scenario::System;

/// The policy's requirements on fingerprints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granularity {
    pub(crate) block_bytes: u32,
    pub(crate) head_bytes: u32,
    /// Whether the index learns from answers, so that they must be followed.
    pub(crate) follows: bool,
}

/// The policy and its shadow.
fn rules(system: &System) -> impl Iterator<Item = (&'static Spec, &Params)> {
    let shadow = system.shadow.as_ref().map(|shadow| (shadow.policy, &shadow.params));
    std::iter::once((system.policy, &system.params)).chain(shadow)
}

/// The indexes that they require.
pub(crate) fn indexes(system: &System) -> impl Iterator<Item = IndexSpec> {
    rules(system).filter_map(|(policy, params)| (policy.index)(params))
}

impl Granularity {
    pub(crate) fn of(system: &System) -> Granularity {
        let heads = rules(system).map(|(policy, params)| (policy.head_bytes)(params) as u32);
        let block_bytes = indexes(system).next().map_or(64, |i| i.block_bytes as u32);
        assert!(block_bytes > 0, "an index needs blocks of one byte or more");
        Granularity {
            block_bytes,
            head_bytes: heads.max().unwrap_or(0),
            follows: indexes(system).any(|i| i.insert != Insert::OnDispatch),
        }
    }
}
