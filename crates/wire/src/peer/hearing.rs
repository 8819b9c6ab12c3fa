//! Hearing how a peer's region is: its digest, put together from its news.

use std::sync::Arc;

use meridian_routing::residency::Place;
use meridian_routing::{Digest, Remote};

use super::bounds::{MOST_REPLICAS, PeerError, at_most};
use super::changes::Changes;
use super::news::News;

/// What one peer told on one stream.
#[derive(Debug, Default)]
pub struct Hearing {
    version: u64,
    /// Its replicas are in the order of their ids.
    digest: Arc<Digest>,
    /// Room for the replicas of the next one.
    next: Vec<Remote>,
}

impl Hearing {
    /// A stream of a peer that does not tell where its replicas stand: they stand here.
    #[must_use]
    pub fn at(places: Vec<Arc<Place>>) -> Hearing {
        let digest = Arc::new(Digest { places, ..Digest::default() });
        Hearing { digest, ..Hearing::default() }
    }

    /// The peer's digest, with these news. Its replicas are in the order of their ids. Where the one
    /// before it was let go, nothing is copied.
    ///
    /// # Errors
    /// When the news don't follow what was heard, or tell of too many replicas. What was heard is
    /// then worth nothing: the stream has to be opened again.
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
        digest.whole = news.whole;
        if let Some(places) = news.places {
            digest.places = places;
        }
        Ok(self.digest.clone())
    }
}

/// The replicas as changes leave them: what is between two of those that are told of is copied as
/// it is. A replica that is gone and told of at once is there.
fn apply(changes: &Changes, before: &[Remote], after: &mut Vec<Remote>) {
    let (mut rest, mut changed, mut gone) = (before, changes.changed(), changes.gone());
    after.clear();
    loop {
        let told = [changed.first().map(|new| new.id), gone.first().copied()];
        let Some(id) = told.into_iter().flatten().min() else { break };
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

/// Takes the first of a list where it is the one.
fn next_if<'a, T>(list: &mut &'a [T], is_it: impl Fn(&T) -> bool) -> Option<&'a T> {
    let (first, rest) = list.split_first().filter(|(first, _)| is_it(first))?;
    *list = rest;
    Some(first)
}
