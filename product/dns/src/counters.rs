//! What the name server counts, for the caller's metrics page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::outcome::{Kind, Outcome};
use crate::respond::Reply;

/// Most regions that are counted by name for a type and outcome. Names come from the fleet; this
/// bounds a registry that makes up new ones.
const MOST_REGIONS: usize = 1000;
/// The name under which further regions are counted. Not a region's name, which has no spaces.
const FURTHER: &str = "further regions";

/// Counts since the start. Shared by all sockets.
#[derive(Debug, Default)]
pub struct Counters {
    queries: Mutex<BTreeMap<(Kind, Outcome), BTreeMap<String, u64>>>,
    pub(crate) unanswered: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// The number of queries with one type, outcome and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The type that was asked for.
    pub kind: Kind,
    /// The result.
    pub outcome: Outcome,
    /// The region whose gateways were in the answer; empty if none or all regions were.
    pub region: String,
    /// The queries.
    pub queries: u64,
}

impl Counters {
    /// The answered queries, in a fixed order.
    #[must_use]
    pub fn queries(&self) -> Vec<Count> {
        let mut counts = Vec::new();
        for ((kind, outcome), regions) in &*self.table() {
            for (region, queries) in regions {
                let (kind, outcome, region) = (*kind, *outcome, region.clone());
                counts.push(Count { kind, outcome, region, queries: *queries });
            }
        }
        counts
    }

    /// Messages that could not be read: those answered with FORMERR, and those too short for an
    /// answer or not queries, which get none.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        let answered = self.table();
        let malformed = answered.iter().filter(|((_, outcome), _)| *outcome == Outcome::Malformed);
        let answered: u64 = malformed.flat_map(|(_, regions)| regions.values()).sum();
        answered + self.unanswered.load(Relaxed)
    }

    /// Answers that were too large for UDP.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated.load(Relaxed)
    }

    /// TCP connections that are open now.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// TCP connections that were closed at once because there were too many.
    #[must_use]
    pub fn refused_connections(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts an answer, or a message that gets none.
    pub(crate) fn count(&self, reply: Option<&Reply>) {
        let Some(reply) = reply else {
            self.unanswered.fetch_add(1, Relaxed);
            return;
        };
        if reply.truncated {
            self.truncated.fetch_add(1, Relaxed);
        }
        let mut table = self.table();
        let regions = table.entry((reply.kind, reply.outcome)).or_default();
        let region = reply.region.as_deref().unwrap_or_default();
        if let Some(count) = regions.get_mut(region) {
            *count += 1;
            return;
        }
        let region = if regions.len() < MOST_REGIONS { region } else { FURTHER };
        *regions.entry(region.to_owned()).or_default() += 1;
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<(Kind, Outcome), BTreeMap<String, u64>>> {
        self.queries.lock().expect("no panic while held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(kind: Kind, outcome: Outcome, region: Option<&str>, truncated: bool) -> Reply {
        Reply { bytes: vec![], kind, outcome, region: region.map(str::to_owned), truncated }
    }

    // Queries are counted by type, outcome and region; malformed ones with and without an answer.
    #[test]
    fn queries_are_counted_by_their_labels() {
        let counters = Counters::default();
        for _ in 0..2 {
            counters.count(Some(&reply(Kind::A, Outcome::Answer, Some("eu"), false)));
        }
        counters.count(Some(&reply(Kind::Aaaa, Outcome::Answer, Some("eu"), true)));
        counters.count(Some(&reply(Kind::Other, Outcome::Malformed, None, false)));
        counters.count(None);
        let all = counters.queries();
        let all: Vec<_> = all
            .iter()
            .map(|one| (one.kind.name(), one.outcome.name(), one.region.as_str(), one.queries))
            .collect();
        let wanted =
            [("A", "answer", "eu", 2), ("AAAA", "answer", "eu", 1), ("other", "formerr", "", 1)];
        assert_eq!(all, wanted);
        assert_eq!((counters.malformed(), counters.truncated()), (2, 1));
    }

    // However many regions answer, the table stays small.
    #[test]
    fn the_table_is_bounded() {
        let counters = Counters::default();
        for n in 0..1100 {
            counters.count(Some(&reply(Kind::A, Outcome::Answer, Some(&format!("r{n}")), false)));
        }
        let all = counters.queries();
        assert_eq!(all.len(), 1001);
        assert!(all.iter().any(|one| one.region == FURTHER && one.queries == 100));
    }
}
