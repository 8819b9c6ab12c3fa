//! How prompts are read and answers followed, as the policy in force asks for. The policy may change
//! while requests come; one that is under way is read as the policy of its arrival asked.

use meridian_base::keyed;
use meridian_routing::Insert;
use meridian_routing::policy::{Params, Spec};
use meridian_wire::openai::Reading;

use crate::lock::RwLock;

#[derive(Debug)]
pub(crate) struct ReadingNow {
    /// Keys what clients send.
    pub(crate) seed: u64,
    /// Streams are asked for the count of tokens in each chunk.
    counts: bool,
    now: RwLock<Asked>,
}

/// What a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    block_bytes: usize,
    head_bytes: usize,
    /// Answers are followed, so that the index learns the replies.
    follow_replies: bool,
}

impl Asked {
    fn by(policy: &Spec, params: &Params) -> Asked {
        let index = (policy.index)(params);
        let insert = index.map(|spec| spec.insert);
        Asked {
            block_bytes: index.map_or(64, |spec| spec.block_bytes),
            head_bytes: (policy.head_bytes)(params),
            follow_replies: matches!(insert, Some(Insert::OnAnswer | Insert::Both)),
        }
    }
}

impl ReadingNow {
    pub(crate) fn new(seed: u64, counts: bool, policy: &Spec, params: &Params) -> ReadingNow {
        ReadingNow { seed, counts, now: RwLock::new(Asked::by(policy, params)) }
    }

    /// Another policy decides from now on.
    pub(crate) fn change(&self, policy: &Spec, params: &Params) {
        *self.now.write() = Asked::by(policy, params);
    }

    /// For a request, of `tenant` where tenants share nothing.
    pub(crate) fn of(&self, tenant: Option<u64>) -> Reading {
        let Asked { block_bytes, head_bytes, .. } = self.asked();
        let (seed, counts) = (self.seed, self.counts);
        Reading { seed, block_bytes, head_bytes, tenant_scope: tenant, counts }
    }

    /// A keyed hash of something that a client sent; 0 for nothing.
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
