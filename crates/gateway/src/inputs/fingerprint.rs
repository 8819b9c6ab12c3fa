//! How to read prompts and follow answers for the current policy. The policy may change while
//! requests arrive; a request in flight keeps the settings of its arrival.

use meridian_base::keyed;
use meridian_routing::Insert;
use meridian_routing::policy::{Params, Spec};
use meridian_wire::openai::Reading;

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
    fn by(policy: &Spec, params: &Params, counts: bool) -> Asked {
        let index = (policy.index)(params);
        let insert = index.map(|spec| spec.insert);
        Asked {
            block_bytes: index.map_or(64, |spec| spec.block_bytes),
            head_bytes: (policy.head_bytes)(params),
            follow_replies: matches!(insert, Some(Insert::OnAnswer | Insert::Both)),
            counts,
        }
    }
}

impl ReadingNow {
    pub(crate) fn new(seed: u64, counts: bool, policy: &Spec, params: &Params) -> ReadingNow {
        ReadingNow { seed, now: RwLock::new(Asked::by(policy, params, counts)) }
    }

    /// Switches to another policy; `counts` says whether streams should have the token count in each
    /// chunk.
    pub(crate) fn change(&self, policy: &Spec, params: &Params, counts: bool) {
        *self.now.write() = Asked::by(policy, params, counts);
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
