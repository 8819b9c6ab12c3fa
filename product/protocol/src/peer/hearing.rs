//! Receiving a peer's digest: assembles it from its news.

use std::sync::Arc;

use meridian_base::residency::Place;
use meridian_base::{Digest, PeerReplica};

use super::bounds::{MOST_REPLICAS, PeerError, at_most};
use super::changes::Changes;
use super::news::News;

/// State received from one peer on one stream.
#[derive(Debug, Default)]
pub struct Hearing {
    version: u64,
    /// Its replicas are ordered by id.
    digest: Arc<Digest>,
    /// Buffer for the next digest's replicas.
    next: Vec<PeerReplica>,
}

impl Hearing {
    /// For the stream of a peer that does not report the places of its replicas: they count as
    /// being at `places`.
    #[must_use]
    pub fn at(places: Vec<Arc<Place>>) -> Hearing {
        let digest = Arc::new(Digest { places, ..Digest::default() });
        Hearing { digest, ..Hearing::default() }
    }

    /// The peer's digest after this news, with replicas ordered by id. If the caller has dropped
    /// the previous digest, nothing is copied.
    ///
    /// # Errors
    /// If the news doesn't follow the last one, or reports too many replicas. The state is then
    /// invalid: the stream must be opened again.
    pub fn take(&mut self, news: News) -> Result<Arc<Digest>, PeerError> {
        let have = self.version;
        if news.base != have {
            return Err(PeerError::Gap { base: news.base, have });
        }
        if news.version <= have {
            return Err(PeerError::Order { version: news.version, have });
        }
        let digest = Arc::make_mut(&mut self.digest);
        if !news.changes.is_empty() {
            apply(&news.changes, &digest.replicas, &mut self.next);
            at_most("changed", self.next.len(), MOST_REPLICAS)?;
            std::mem::swap(&mut digest.replicas, &mut self.next);
        }
        self.version = news.version;
        digest.held = news.held;
        digest.eligible = news.eligible;
        digest.usable = news.usable;
        digest.utilisation = news.utilisation;
        digest.kv_tokens = news.kv_tokens;
        digest.learned_ms_per_token = news.learned_ms_per_token;
        digest.pace = news.pace;
        digest.whole = news.whole;
        if let Some(places) = news.places {
            digest.places = places;
        }
        Ok(self.digest.clone())
    }
}

/// Applies changes to the replicas; runs of unchanged replicas are copied as they are. A replica
/// that is both gone and changed is present.
fn apply(changes: &Changes, before: &[PeerReplica], after: &mut Vec<PeerReplica>) {
    let (mut rest, mut changed, mut gone) = (before, changes.changed(), changes.gone());
    after.clear();
    loop {
        let ids = [changed.first().map(|new| new.id), gone.first().copied()];
        let Some(id) = ids.into_iter().flatten().min() else { break };
        let is_next = after.last().is_none_or(|last| last.id < id);
        assert!(is_next, "changes are ordered by id, each replica once");
        let from = rest.iter().position(|old| old.id >= id).unwrap_or(rest.len());
        let (same, from) = rest.split_at(from);
        after.extend_from_slice(same);
        after.extend(next_if(&mut changed, |new| new.id == id));
        next_if(&mut gone, |left| *left == id);
        rest = from;
        next_if(&mut rest, |old| old.id == id);
    }
    after.extend_from_slice(rest);
}

/// Takes the first element of a list if it matches.
fn next_if<'a, T>(list: &mut &'a [T], is_it: impl Fn(&T) -> bool) -> Option<&'a T> {
    let (first, rest) = list.split_first().filter(|(first, _)| is_it(first))?;
    *list = rest;
    Some(first)
}
