//! Hearing how a peer's region is: its digest, put together from its news.

use meridian_base::ReplicaId;
use meridian_routing::{Digest, Remote};

use super::bounds::{MOST_REPLICAS, PeerError, at_most};
use super::news::News;

/// What one peer told on one stream.
#[derive(Debug, Default)]
pub struct Hearing {
    version: u64,
    /// In the order of their ids.
    remotes: Vec<Remote>,
}

impl Hearing {
    /// The peer's digest, with these news. Its replicas are in the order of their ids, its
    /// prefixes those that were not told before.
    ///
    /// # Errors
    /// When the news don't follow what was heard, or tell of too many replicas. What was heard is
    /// then worth nothing: the stream is to be begun anew.
    pub fn take(&mut self, news: News) -> Result<Digest, PeerError> {
        let have = self.version;
        if news.base != have {
            return Err(PeerError::Gap { base: news.base, have });
        }
        if news.version <= have {
            return Err(PeerError::Order { version: news.version, have });
        }
        self.apply(news.changed, news.gone);
        at_most("changed", self.remotes.len(), MOST_REPLICAS)?;
        self.version = news.version;
        Ok(Digest {
            held: news.held,
            eligible: news.eligible,
            usable: news.usable,
            utilisation: news.utilisation,
            kv_tokens: news.kv_tokens,
            learned_ms_per_token: news.learned_ms_per_token,
            replicas: self.remotes.clone(),
            whole: news.whole,
            prefixes: news.prefixes,
        })
    }
    /// Merges what has changed into what was there.
    fn apply(&mut self, mut changed: Vec<Remote>, mut gone: Vec<ReplicaId>) {
        changed.sort_unstable_by_key(|remote| remote.id);
        gone.sort_unstable();
        if changed.is_empty() && gone.is_empty() {
            return;
        }
        let mut old = std::mem::take(&mut self.remotes).into_iter().peekable();
        let stays = |remote: &Remote| gone.binary_search(&remote.id).is_err();
        for remote in changed {
            let before = std::iter::from_fn(|| old.next_if(|old| old.id < remote.id));
            self.remotes.extend(before.filter(stays));
            old.next_if(|old| old.id == remote.id);
            self.remotes.push(remote);
        }
        self.remotes.extend(old.filter(stays));
    }
}
