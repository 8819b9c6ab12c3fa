//! The decisions of a shadow policy in a journal.

use std::collections::BTreeMap;

use meridian_rivals::find;
use meridian_routing::policy::Spec;
use meridian_routing::{Compared, ShadowConfig, ShadowTotals, Would};
use meridian_workload::trace::TraceRequest;

/// The shadow's decisions in a journal.
#[derive(Clone, Debug)]
pub struct Live {
    /// The policy that was followed.
    pub policy: &'static Spec,
    /// The policy of the shadow.
    pub shadow: &'static Spec,
    /// The sums over the newest decision about each request.
    pub totals: ShadowTotals,
}

/// The shadow that decided about the most of the requests, and the policy that it stood beside; `None`
/// for a journal without one that this program knows.
pub(super) fn live(requests: &[TraceRequest]) -> Option<Live> {
    let mut found: BTreeMap<(&str, &str), ShadowTotals> = BTreeMap::new();
    for request in requests {
        let (Some(policy), Some(shadow)) = (&request.policy, &request.shadow) else { continue };
        let Some(would) = Would::of_word(&shadow.would) else { continue };
        let compared = shadow.compared.map(|figures| Compared {
            prompt_tokens: figures.prompt_tokens,
            matched_tokens: figures.matched_tokens,
            shadow_matched_tokens: figures.shadow_matched_tokens,
            first_token_ms: figures.first_token.as_secs_f32() * 1e3,
            shadow_first_token_ms: figures.shadow_first_token.as_secs_f32() * 1e3,
        });
        found.entry((&**policy, &*shadow.policy)).or_default().add(would, compared.as_ref());
    }
    let ((policy, shadow), totals) = found.into_iter().max_by_key(|(_, totals)| totals.all())?;
    Some(Live { policy: find(policy)?, shadow: find(shadow)?, totals })
}

impl Live {
    /// The shadow of simulated gateways that follow `policy`. A journal has names, so parameters are the
    /// defaults, and an expression is not simulated.
    pub(super) fn beside(&self, policy: &Spec) -> Option<ShadowConfig> {
        let simulated = policy.name == self.policy.name && !self.is_unknown();
        simulated.then(|| ShadowConfig::new(self.shadow))
    }

    /// Whether its rule is its parameters, which a journal lacks.
    pub(super) fn is_unknown(&self) -> bool {
        self.shadow.name == "expression"
    }
}
