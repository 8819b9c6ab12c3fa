//! Metrics of the shadow policy, copied from the status page at each scrape. Its label is a name that
//! `meridian policies` lists.

use std::sync::atomic::Ordering::Relaxed;

use meridian_protocol::admin::Status;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{Seconds, set};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decided {
    policy: String,
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPolicy {
    policy: String,
}

/// `pick` is `policy` for the policy in force, or `shadow`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPick {
    policy: String,
    pick: &'static str,
}

#[derive(Default)]
pub(super) struct Shadow {
    decisions: Family<Decided, Counter>,
    compared: Family<OfPolicy, Counter>,
    prompt_tokens: Family<OfPolicy, Counter>,
    matched_tokens: Family<OfPick, Counter>,
    first_token: Family<OfPick, Seconds>,
}

impl Shadow {
    pub(super) fn register(&self, r: &mut Registry) {
        let help = "Decisions of the shadow policy, by what they would have changed";
        r.register("shadow_decisions", help, self.decisions.clone());
        let help = "Of those, the ones in which both policies picked replicas of this region";
        r.register("shadow_compared", help, self.compared.clone());
        let help = "Prompt tokens of those";
        r.register("shadow_prompt_tokens", help, self.prompt_tokens.clone());
        let help = "Of those, expected in the cache at the pick";
        r.register("shadow_matched_tokens", help, self.matched_tokens.clone());
        let help = "Predicted time to the first token at the pick, sum";
        let times = self.first_token.clone();
        r.register_with_unit("shadow_predicted_ttft", help, Unit::Seconds, times);
    }

    pub(super) fn copy(&self, status: &Status) {
        // Only the shadow in force has series.
        self.decisions.clear();
        [&self.compared, &self.prompt_tokens].iter().for_each(|family| family.clear());
        self.matched_tokens.clear();
        self.first_token.clear();
        let Some(shadow) = status.shadow.as_ref().filter(|shadow| shadow.paused.is_none()) else {
            return;
        };
        let policy = || shadow.policy.clone();
        for (outcome, count) in &shadow.decisions {
            let label = Decided { policy: policy(), outcome: outcome.clone() };
            set(&self.decisions.get_or_create(&label), *count);
        }
        let label = OfPolicy { policy: policy() };
        set(&self.compared.get_or_create(&label), shadow.compared);
        set(&self.prompt_tokens.get_or_create(&label), shadow.prompt_tokens);
        for (pick, tokens, ms) in [
            ("policy", shadow.matched_tokens, shadow.first_token_ms),
            ("shadow", shadow.shadow_matched_tokens, shadow.shadow_first_token_ms),
        ] {
            let label = OfPick { policy: policy(), pick };
            set(&self.matched_tokens.get_or_create(&label), tokens);
            self.first_token.get_or_create(&label).inner().store((ms / 1e3).to_bits(), Relaxed);
        }
    }
}
