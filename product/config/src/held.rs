//! The section `held`: the gateway's queue.

use meridian_routing::HeldConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;
use super::check::{above_zero, at_least_one};

/// The gateway's queue (`held`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Held {
    /// Most queued requests.
    pub max: u32,
    /// Most queued requests of one tenant.
    pub max_per_tenant: u32,
    /// Longest time in the queue.
    pub max_wait: Span,
    /// How many requests from the front of the queue are considered when capacity becomes free.
    pub look_ahead: u32,
    /// After this wait, the oldest request of the tenant that was served least goes before better
    /// matches.
    pub patience: Span,
    /// After this wait, a request that fits on no replica is promised the next free capacity of a
    /// full one.
    pub promise: Span,
    /// How long requests for a model are queued rather than refused after its last replica left; for
    /// models that this file names, always.
    pub after_last_replica: Span,
}

impl Default for Held {
    fn default() -> Self {
        let h = HeldConfig::default();
        assert!(!h.max_wait.is_zero() && h.look_ahead > 0, "by default requests can be held");
        Held {
            max: h.max,
            max_per_tenant: h.max_per_tenant,
            max_wait: Span(h.max_wait),
            look_ahead: h.look_ahead,
            patience: Span(h.patience),
            promise: Span(h.promise),
            after_last_replica: Span::secs(15 * 60),
        }
    }
}

impl Held {
    /// Checks the section.
    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        above_zero("held.max_wait", self.max_wait, check);
        at_least_one("held.look_ahead", self.look_ahead as usize, check);
        check(
            self.max == 0 || self.max_per_tenant > 0,
            "held.max_per_tenant: 0 would queue no request of any tenant; use 1 or more, or write held.max: 0 for no queue"
                .to_owned(),
        );
    }

    /// The bounds that the routing machine applies.
    pub(super) fn bounds(&self) -> HeldConfig {
        HeldConfig {
            max: self.max,
            max_per_tenant: self.max_per_tenant,
            max_wait: self.max_wait.0,
            look_ahead: self.look_ahead,
            patience: self.patience.0,
            promise: self.promise.0,
        }
    }
}
