//! How to read prompts and follow answers for the current policy. The policy may change while
//! requests arrive; a request in flight keeps the settings of its arrival.

use meridian_base::keyed;
use meridian_protocol::openai::Reading;
use meridian_routing::policy::{Params, Spec};
use meridian_routing::{Config, Insert, ShadowConfig};

use crate::lock::RwLock;

#[derive(Debug)]
pub(crate) struct ReadingNow {
    /// Key for hashes of client input.
    pub(crate) seed: u64,
    now: RwLock<Asked>,
}

/// Settings required by a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    block_bytes: usize,
    head_bytes: usize,
    /// Whether to collect replies, so that the index learns them.
    follow_replies: bool,
    /// Whether to request the token count in each chunk of a stream.
    counts: bool,
}

impl Asked {
    /// What the policy and its shadow require. The configuration makes sure that both read prompts in
    /// the same way.
    fn by(policy: &Spec, params: &Params, shadow: Option<&ShadowConfig>, counts: bool) -> Asked {
        let shadow = shadow.map(|shadow| (shadow.policy, &shadow.params));
        let all = || [Some((policy, params)), shadow].into_iter().flatten();
        let index = || all().filter_map(|(policy, params)| (policy.index)(params));
        Asked {
            block_bytes: index().next().map_or(64, |spec| spec.block_bytes),
            head_bytes: all()
                .map(|(policy, params)| (policy.head_bytes)(params))
                .max()
                .unwrap_or(0),
            follow_replies: index().any(|spec| spec.insert != Insert::OnDispatch),
            counts,
        }
    }
}

impl ReadingNow {
    pub(crate) fn new(seed: u64, counts: bool, routing: &Config) -> ReadingNow {
        let Config { policy, params, shadow, .. } = routing;
        ReadingNow { seed, now: RwLock::new(Asked::by(policy, params, shadow.as_ref(), counts)) }
    }

    /// Switches to another policy and another shadow; `counts` says whether streams should have the
    /// token count in each chunk.
    pub(crate) fn change(
        &self,
        policy: &Spec,
        params: &Params,
        shadow: Option<&ShadowConfig>,
        counts: bool,
    ) {
        *self.now.write() = Asked::by(policy, params, shadow, counts);
    }

    /// The settings for a request; `tenant` is set if tenants share nothing.
    pub(crate) fn of(&self, tenant: Option<u64>) -> Reading {
        let Asked { block_bytes, head_bytes, counts, .. } = self.asked();
        Reading { seed: self.seed, block_bytes, head_bytes, tenant_scope: tenant, counts }
    }

    /// A keyed hash of client input; 0 if there is none.
    pub(crate) fn hash(&self, bytes: Option<&[u8]>) -> u64 {
        bytes.map_or(0, |bytes| keyed(self.seed, bytes))
    }

    pub(crate) fn follows_replies(&self) -> bool {
        self.asked().follow_replies
    }

    fn asked(&self) -> Asked {
        *self.now.read()
    }
}
