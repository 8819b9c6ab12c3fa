//! A digest as sent to all followers: the changes since the previous one are computed once for all
//! followers that received that one.

use std::sync::Arc;

use meridian_base::Digest;

use super::bounds::MOST_REPLICAS;
use super::changes::Changes;

/// A digest and its changes.
#[derive(Clone, Debug, Default)]
pub struct Page {
    digest: Arc<Digest>,
    before: Option<Arc<Digest>>,
    changes: Arc<Changes>,
}

impl From<Digest> for Page {
    /// A page without a predecessor.
    fn from(mut digest: Digest) -> Page {
        digest.whole &= digest.replicas.len() <= MOST_REPLICAS;
        digest.replicas.truncate(MOST_REPLICAS);
        Page { digest: Arc::new(digest), ..Page::default() }
    }
}

impl Page {
    /// The next page.
    #[must_use]
    pub fn next(&self, digest: Digest) -> Page {
        let page = Page::from(digest);
        let changes = Arc::new(Changes::between(&self.digest, &page.digest));
        Page { before: Some(self.digest.clone()), changes, ..page }
    }

    /// The page's digest.
    #[must_use]
    pub fn digest(&self) -> &Arc<Digest> {
        &self.digest
    }

    /// The changes for a follower that last received `before`.
    pub(super) fn since(&self, before: Option<&Arc<Digest>>) -> Arc<Changes> {
        match (before, &self.before) {
            (Some(last), Some(before)) if Arc::ptr_eq(last, before) => self.changes.clone(),
            (Some(last), _) => Arc::new(Changes::between(last, &self.digest)),
            (None, _) => Arc::new(Changes::between(&Digest::default(), &self.digest)),
        }
    }
}
