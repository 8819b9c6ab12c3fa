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

    /// Brings what was there up to date: most of what is told of a replica is told of one that was
    /// there before.
    fn apply(&mut self, changed: Vec<Remote>, mut gone: Vec<ReplicaId>) {
        if !gone.is_empty() {
            gone.sort_unstable();
            self.remotes.retain(|remote| gone.binary_search(&remote.id).is_err());
        }
        let known = self.remotes.len();
        for remote in changed {
            match self.remotes[..known].binary_search_by_key(&remote.id, |old| old.id) {
                Ok(at) => self.remotes[at] = remote,
                Err(_) => self.remotes.push(remote),
            }
        }
        if self.remotes.len() > known {
            self.remotes.sort_by_key(|remote| remote.id);
        }
    }
}
